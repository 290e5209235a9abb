package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Bounds of the rounds of one call. They end a call whose server would ask for ever.
const (
	maxRounds    = 256
	maxQuestions = 64 // per round
	maxPauses    = 10 // consecutive rounds without a question
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// Call makes a call on behalf of b.Request, whose agent may be of another era than the server. If a
// modern server answers with questions, Call asks a legacy agent all questions of a round at once.
// It repeats the call with the answers until there is a result. A modern agent gets the questions
// themselves, unless weir has already asked it something in this call (see Rounds): then the agent
// is in rounds of weir's own.
//
// It returns the errors of p.Call. The error for a missing resource has the code of the agent's
// era. If the agent answers with an error, the call ends with that error.
func Call(ctx context.Context, p mcp.Peer, method string, params json.RawMessage, b *Back) (json.RawMessage, error) {
	pauses, pause := 0, firstPause
	for range maxRounds {
		result, err := p.Call(ctx, method, params, b)
		if err != nil {
			return nil, b.pagesFirst(b.inEra(method, err))
		}
		if !MayAsk(method) || !IsInputRequired(result) {
			return result, nil
		}
		if b.Request.Modern() && !isHeld(b.Request.Peer) {
			return b.passedOn(result)
		}
		b.noteAsked()
		var requests, state []byte
		if err := rawjson.Scan(result, rawjson.Key("inputRequests", &requests), rawjson.Key("requestState", &state)); err != nil {
			return nil, b.unreadable("%v", err)
		}
		answers, n, err := b.answer(ctx, requests)
		if err != nil {
			return nil, err
		}
		if params, err = withAnswers(params, answers, state); err != nil {
			return nil, err
		}
		if n > 0 {
			pauses, pause = 0, firstPause
			continue
		}
		// A state without questions means: call again later (load shedding).
		if pauses++; pauses > maxPauses {
			return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s is too busy: it has put off one %s %d times; try again later", b.Server, method, maxPauses)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		pause = min(2*pause, longestPause)
	}
	return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s has asked for input %d times during one %s and has no result; its owner should look into that", b.Server, maxRounds, method)
}

// inEra returns a server's error with the code of the agent's era. 2026-07-28 has no separate code
// for a missing resource.
func (b *Back) inEra(method string, err error) error {
	var wire *jsonrpc.Error
	if method != "resources/read" || !b.Request.Modern() || !errors.As(err, &wire) || wire.Code != mcp.KindResourceNotFound.Info().JSONRPC {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: wire.Message, Data: wire.Data}
}

// passedOn returns a result with questions for a modern agent, which answers them to the server.
func (b *Back) passedOn(result json.RawMessage) (json.RawMessage, error) {
	if b.Question == nil {
		return result, nil
	}
	asked, err := rawjson.Sole(result, "inputRequests")
	switch {
	case err != nil:
		return nil, b.unreadable("%v", err)
	case asked == nil:
		return result, nil
	}
	var problem error
	w := rawjson.NewWriter(nil).Object()
	read := rawjson.EachMember(asked, func(m rawjson.Member) bool {
		var out json.RawMessage
		if out, problem = b.named(m.Value); problem == nil {
			w.Key(string(m.Key)).Raw(out)
		}
		return problem == nil
	})
	if read != nil || problem != nil {
		return nil, b.unreadable("%v", errors.Join(read, problem))
	}
	out, err := rawjson.Set(result, "inputRequests", w.EndObject().Bytes())
	if err != nil {
		return nil, b.unreadable("%v", err)
	}
	return out, nil
}

// named returns a question of inputRequests with its params as the agent gets them.
func (b *Back) named(request json.RawMessage) (json.RawMessage, error) {
	method, err := rawjson.Sole(request, "method")
	if err != nil {
		return nil, err
	}
	if _, known := capabilityOf(rawjson.Text(method)); !known {
		return request, nil
	}
	params, err := rawjson.Sole(request, "params")
	if err == nil {
		params, err = b.question(rawjson.Text(method), params)
	}
	if err != nil || len(params) == 0 {
		return request, err
	}
	return rawjson.Set(request, "params", params)
}

// codeElicitFirst is URLElicitationRequired of 2025-11-25: the error has questions for the agent.
const codeElicitFirst = -32042

// pagesFirst returns an error of the server with its questions as the agent gets them.
func (b *Back) pagesFirst(err error) error {
	var wire *jsonrpc.Error
	if b.Question == nil || !errors.As(err, &wire) || wire.Code != codeElicitFirst {
		return err
	}
	pages, unclear := rawjson.Sole(wire.Data, "elicitations")
	switch {
	case unclear != nil:
		return b.unreadable("%v", unclear)
	case pages == nil:
		return err
	}
	var problem error
	w := rawjson.NewWriter(nil).Array()
	read := rawjson.EachElement(pages, func(params []byte) bool {
		var out json.RawMessage
		if out, problem = b.Question(methodElicit, params); problem == nil {
			w.Raw(out)
		}
		return problem == nil
	})
	if read != nil || problem != nil {
		return b.unreadable("%v", errors.Join(read, problem))
	}
	data, failed := rawjson.Set(wire.Data, "elicitations", w.EndArray().Bytes())
	if failed != nil {
		return b.unreadable("%v", failed)
	}
	return &jsonrpc.Error{Code: wire.Code, Message: wire.Message, Data: data}
}

// unreadable returns the error for questions that the agent does not get.
func (b *Back) unreadable(format string, args ...any) error {
	return mcp.Errorf(mcp.KindUpstreamProtocol, "%s asks for input in a way that cannot be read: %s", b.Server, fmt.Sprintf(format, args...))
}

// isHeld reports whether the agent at the other end of p is in rounds of weir's own.
func isHeld(p mcp.Peer) bool {
	h, ok := p.(held)
	return ok && h.InRounds()
}

// held is a Peer whose agent may be in rounds of weir's own.
type held interface {
	mcp.Peer
	// InRounds reports whether the agent gets the questions of a modern server from weir, by Call, and not as the
	// result of its request.
	InRounds() bool
}

// question is one question of a round.
type question struct {
	key, method string
	params      json.RawMessage
	answer      json.RawMessage
}

// Answer asks the agent all questions of inputRequests at once. It returns the inputResponses and how
// many there are. The error is for the agent; none of the answers counts then.
func (b *Back) Answer(ctx context.Context, requests json.RawMessage) (json.RawMessage, int, error) {
	b.noteAsked()
	return b.answer(ctx, requests)
}

// answer is Answer without the note that the agent is asked.
func (b *Back) answer(ctx context.Context, requests json.RawMessage) (json.RawMessage, int, error) {
	questions, err := b.questions(requests)
	if err != nil {
		return nil, 0, err
	}
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range questions {
		q := &questions[i]
		all.Go(func() {
			var err error
			if q.answer, err = b.ask(asking, q.method, q.params, nil); err != nil {
				cancel(b.refused(q.method, err)) // the other answers are not needed any more
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	if err := context.Cause(asking); err != nil {
		return nil, 0, err
	}
	out := []byte{'{'}
	for i, q := range questions {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(rawjson.AppendString(out, q.key), ':')
		if len(q.answer) == 0 {
			q.answer = json.RawMessage("{}")
		}
		out = append(out, q.answer...)
	}
	return append(out, '}'), len(questions), nil
}

// refused returns the error of a call whose question the agent did not answer. 2026-07-28 cannot
// report that to a server.
func (b *Back) refused(method string, err error) error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		return err
	}
	return &jsonrpc.Error{Code: wire.Code, Data: wire.Data,
		Message: fmt.Sprintf("%s asked for %s, and the client answered with an error: %s", b.Server, method, wire.Message)}
}

func (b *Back) questions(requests json.RawMessage) ([]question, error) {
	if len(requests) == 0 || string(requests) == "null" {
		return nil, nil
	}
	if !rawjson.IsObject(requests) {
		return nil, b.unreadable("inputRequests is no object")
	}
	var list []question
	var problem error
	err := rawjson.EachMember(requests, func(m rawjson.Member) bool {
		var method, params []byte
		if err := rawjson.Scan(m.Value, rawjson.Key("method", &method), rawjson.Key("params", &params)); err != nil {
			problem = b.unreadable("%v", err)
			return false
		}
		q := question{key: string(m.Key), method: rawjson.Text(method), params: params}
		if _, known := capabilityOf(q.method); !known {
			problem = b.unreadable("%q is no question of MCP", clip(q.method))
			return false
		}
		if len(list) == maxQuestions {
			problem = b.unreadable("more than %d questions at once", maxQuestions)
			return false
		}
		var err error
		if q.params, err = b.question(q.method, q.params); err != nil {
			problem = b.unreadable("%v", err)
			return false
		}
		list = append(list, q)
		return true
	})
	switch {
	case problem != nil:
		return nil, problem
	case err != nil:
		return nil, b.unreadable("%v", err)
	}
	return list, nil
}

// withAnswers returns params for the next round.
func withAnswers(params, answers, state json.RawMessage) (json.RawMessage, error) {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	out, err := rawjson.Set(params, "inputResponses", answers)
	if err == nil {
		if len(state) > 0 && string(state) != "null" {
			out, err = rawjson.Set(out, "requestState", state)
		} else {
			out, err = rawjson.Delete(out, "requestState")
		}
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	return out, nil
}
