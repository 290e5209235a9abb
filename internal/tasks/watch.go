package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

const (
	firstPoll    = 200 * time.Millisecond // most tasks that end at once have ended by then
	shortestPoll = 100 * time.Millisecond
	usualPoll    = time.Second // for a server without a wish
	longestPoll  = 30 * time.Second
	progressGap  = 5 * time.Second // between two notifications with the same message
	maxQuestions = 1024            // keys of questions that are remembered of one task
)

// relatedTask is the key in a result's _meta that names its task (2025-11-25). An agent cannot use
// that id here.
const relatedTask = "io.modelcontextprotocol/related-task"

// watch follows one task during one request of an agent.
type watch struct {
	*Client
	call  *dispatch.Call
	task  *task
	back  bridge.Back
	token json.RawMessage // of the agent's progress, nil for none

	told     string // the message of the last progress
	toldTime time.Time

	// Of 2025-11-25: tasks/result, which waits for the end and carries the server's questions.
	awaited chan answer // nil while it is not sent
	stop    context.CancelFunc
}

// answer is the outcome of a request.
type answer struct {
	raw json.RawMessage
	err error
}

// run waits until the task has ended or until has passed, in which case it returns nothing. The
// server is asked first if it has not said the status yet. While a person answers a question of the
// server, time does not count.
func (w *watch) run(ctx context.Context, state mcptask.State, until time.Time) (json.RawMessage, error) {
	raw, err := w.follow(ctx, state, until)
	if gone := w.gone(ctx, w.task); gone != nil {
		return nil, gone
	}
	return raw, err
}

// follow is run for as long as the id is the task's.
func (w *watch) follow(ctx context.Context, state mcptask.State, until time.Time) (json.RawMessage, error) {
	if e := w.task.failed(); e != nil {
		return nil, e
	}
	defer w.leave()
	pause := firstPoll
	known := state.Status != ""
	for {
		if !known {
			next, err := w.get(ctx)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				return nil, err
			case next.Status != "":
				state = next
			}
		}
		known = false
		if state.Final() {
			return w.end(ctx, state)
		}
		w.progress(ctx, state)
		asking := false
		if !w.task.modern {
			w.await(ctx)
			asking = state.Status == "input_required"
		} else if state.Status == "input_required" {
			w.reply(ctx, &state)
		}
		left := until.Sub(w.Registry.now())
		if left <= 0 && (!asking || !w.back.Asked()) {
			return nil, nil
		}
		if left > 0 {
			pause = min(pause, left)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case a := <-w.awaited:
			w.awaited = nil
			if a.err == nil || !unanswered(a.err) {
				timer.Stop()
				return w.answered(ctx, a)
			}
			select { // without the pause, a server that is down would be asked without end
			case <-ctx.Done():
				timer.Stop()
				return nil, ctx.Err()
			case <-timer.C:
			}
		case <-timer.C:
		}
		pause = pollOf(state)
	}
}

// pollOf returns the time to the next request about a task.
func pollOf(s mcptask.State) time.Duration {
	if s.Poll == 0 {
		return usualPoll
	}
	return min(max(s.Poll, shortestPoll), longestPoll)
}

// get asks for the state. A server that cannot be reached leaves the state as it is: the task may
// still run.
func (w *watch) get(ctx context.Context) (mcptask.State, error) {
	raw, err := w.ask(ctx, mcptask.MethodGet, mcptask.Params(w.task.id), nil)
	switch {
	case err == nil:
		read := mcptask.Read
		if w.task.agent {
			read = mcptask.ReadAgent
		}
		state, ok := read(raw)
		if !ok {
			return state, w.task.fail(w.ended("has no state: the server answered tasks/get with something that is no task"))
		}
		w.task.set(state, "")
		return state, nil
	case ctx.Err() != nil:
		return mcptask.State{}, ctx.Err()
	case errors.Is(err, errNodeGone):
		return mcptask.State{}, w.nodeGone()
	case unanswered(err):
		if kind, own := mcp.KindOf(err); own && kind == mcp.KindNotFound {
			return mcptask.State{}, w.ended("cannot be followed: its server was removed, disabled or renamed (" + err.Error() + ")")
		}
		w.task.set(mcptask.State{}, "its server cannot be asked now: "+err.Error())
		return mcptask.State{}, nil
	}
	return mcptask.State{}, w.lost(err)
}

// unanswered reports whether a request failed in a way that says nothing about its task.
func unanswered(err error) bool {
	var wire *jsonrpc.Error
	return !errors.As(err, &wire) || wire.Code == jsonrpc.CodeInternalError
}

// lost is the error for a task that its server does not know.
func (w *watch) lost(err error) error {
	e := w.ended("is gone: its server was restarted, or kept the task for a shorter time")
	e.Message += "; the server said: " + err.Error()
	return w.task.fail(e)
}

// ended returns the error for a task without a result.
func (w *watch) ended(why string) *result.Error {
	return &result.Error{Code: result.UpstreamError, Path: w.task.entry.ID, Message: fmt.Sprintf(
		"the task of %s at server %q %s; run the tool again if its result is still needed", w.task.entry.ID, w.task.upstream, why)}
}

// end returns what a task ended with.
func (w *watch) end(ctx context.Context, state mcptask.State) (json.RawMessage, error) {
	why := "was cancelled"
	if state.Message != "" {
		why += " (" + state.Message + ")"
	}
	switch {
	case state.Result != nil:
		return w.result(ctx, state.Result)
	case rawjson.IsObject(state.Error):
		code, _ := rawjson.Int(rawjson.Get(state.Error, "code"))
		return nil, w.final(dispatch.Classify(ctx, w.task.upstream, &jsonrpc.Error{Code: code, Message: rawjson.Text(rawjson.Get(state.Error, "message")), Data: rawjson.Get(state.Error, "data")}))
	case state.Status == "cancelled":
		return nil, w.task.fail(w.ended(why))
	case w.task.modern:
		return nil, w.task.fail(w.ended("is " + state.Status + " and has no result"))
	}
	w.await(ctx)
	a := <-w.awaited // ends with ctx
	w.awaited = nil
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case a.err != nil && unanswered(a.err):
		return nil, dispatch.Classify(ctx, w.task.upstream, a.err)
	case a.err != nil:
		return nil, w.final(dispatch.Classify(ctx, w.task.upstream, a.err))
	}
	return w.result(ctx, a.raw)
}

// final makes the failure of a task that has ended final, if the agent has a handle: the same request
// would tell it again. Only the tool can be run again, and the task may have done a part of its work.
func (w *watch) final(err error) error {
	e := (*result.Error)(nil)
	if w.task.handle == "" || !errors.As(err, &e) || !e.Retryable() {
		return err
	}
	ended := *e
	ended.Final = true
	ended.Message = fmt.Sprintf("the task failed and this handle will say so again; run %s again only after you have looked at what it did: %s", w.task.entry.ID, e.Message)
	return &ended
}

// answered returns what tasks/result was answered with. An error is the task's own failure, or says
// that the task is gone.
func (w *watch) answered(ctx context.Context, a answer) (json.RawMessage, error) {
	if a.err == nil {
		return w.result(ctx, a.raw)
	}
	state, gone := w.get(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case gone != nil:
		return nil, gone
	case state.Status == "cancelled":
		return w.end(ctx, state)
	}
	return nil, w.final(dispatch.Classify(ctx, w.task.upstream, a.err))
}

// result makes of the result of a task what a call without a task would have returned.
func (w *watch) result(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	raw = mcp.WithContent(raw)
	if rawjson.MayHold(raw, relatedTask) && rawjson.GetPath(raw, "_meta", relatedTask) != nil {
		without, err := withoutTask(ctx, raw)
		if err != nil {
			return nil, dispatch.Classify(ctx, w.task.upstream, mcp.NoRoom("the result of the task", err))
		}
		raw = without
	}
	w.task.set(mcptask.State{ID: w.task.id, Status: "completed", Modern: w.task.modern}, "")
	clean, err := w.Clean(ctx, raw)
	if err != nil {
		return nil, dispatch.Classify(ctx, w.task.upstream, err)
	}
	return clean, nil
}

// withoutTask returns a result without the id of its task in _meta.
func withoutTask(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	meta, err := rawjson.Edit(rawjson.Get(raw, "_meta"), rawjson.Change{Key: relatedTask})
	if err != nil {
		return raw, nil // a key stands twice
	}
	if meta.Len() <= len("{}") {
		meta = nil
	}
	out, err := rawjson.Edit(raw, rawjson.Change{Key: "_meta", Value: meta})
	if err != nil {
		return raw, nil
	}
	return memory.Make(ctx, raw, out.WriteParts)
}

// await sends tasks/result, if it is not sent, in a goroutine that ends before run does. The
// server's questions come on it (2025-11-25).
func (w *watch) await(ctx context.Context) {
	if w.awaited != nil {
		return
	}
	if w.stop != nil {
		w.stop()
	}
	var waiting context.Context
	waiting, w.stop = context.WithCancel(ctx)
	done := make(chan answer, 1)
	w.awaited = done
	go func() {
		raw, err := w.ask(waiting, mcptask.MethodResult, mcptask.Params(w.task.id), &w.back)
		done <- answer{raw, err}
	}()
}

// leave stops waiting for tasks/result. The task goes on.
func (w *watch) leave() {
	if w.stop != nil {
		w.stop()
	}
	if w.awaited != nil {
		<-w.awaited
		w.awaited = nil
	}
}

// reply puts the questions of a task to the agent and sends the answers (2026-07-28). It asks each
// once, also if several requests of agents wait for the task.
func (w *watch) reply(ctx context.Context, state *mcptask.State) {
	fresh, keys := w.task.claim(state.Questions)
	if len(keys) == 0 {
		return
	}
	answers, _, err := w.back.Answer(ctx, fresh)
	if err == nil {
		var params json.RawMessage
		if params, err = rawjson.Set(mcptask.Params(w.task.id), "inputResponses", answers); err == nil {
			_, err = w.ask(ctx, mcptask.MethodUpdate, params, nil)
		}
	}
	if err != nil {
		w.task.unclaim(keys)
		w.task.set(mcptask.State{}, "it asks something that was not answered: "+err.Error())
	}
}

// claim returns the questions that no request asks an agent or has asked it, and their keys.
func (t *task) claim(questions json.RawMessage) (fresh json.RawMessage, keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []byte{'{'}
	_ = rawjson.EachMember(questions, func(m rawjson.Member) bool {
		key := string(m.Key)
		if _, asked := t.questions[key]; asked {
			return true
		}
		if len(t.questions) >= maxQuestions {
			return false
		}
		if t.questions == nil {
			t.questions = map[string]struct{}{}
		}
		t.questions[key] = struct{}{}
		if len(keys) > 0 {
			out = append(out, ',')
		}
		keys = append(keys, key)
		out = append(append(rawjson.AppendString(out, key), ':'), m.Value...)
		return true
	})
	return append(out, '}'), keys
}

// unclaim lets the next request ask again.
func (t *task) unclaim(keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		delete(t.questions, key)
	}
}

// progress tells the agent what the task does, if the agent wants progress.
func (w *watch) progress(ctx context.Context, state mcptask.State) {
	now := w.Registry.now()
	if w.token == nil || state.Message == w.told && now.Sub(w.toldTime) < progressGap {
		return
	}
	w.told, w.toldTime = state.Message, now
	message := state.Message
	if message == "" {
		message = w.task.entry.ID + " runs as a task"
	}
	params := rawjson.NewWriter(nil).Object().Key("progressToken").Raw(w.token)
	params.Key("progress").Raw(strconv.AppendFloat(nil, now.Sub(w.task.created).Seconds(), 'f', 3, 64))
	params.Key("message").String(w.Redact(message)).EndObject()
	_ = w.call.Request.Peer.Notify(ctx, "notifications/progress", params.Bytes()) // the agent may be gone
}

// cancel asks the server to end the task.
func (w *watch) cancel(ctx context.Context) error {
	_, err := w.ask(ctx, mcptask.MethodCancel, mcptask.Params(w.task.id), nil)
	var wire *jsonrpc.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &wire) && wire.Code == jsonrpc.CodeMethodNotFound:
		return &result.Error{Code: result.UpstreamError, Message: fmt.Sprintf("server %q cannot cancel tasks; %s goes on", w.task.upstream, w.task.entry.ID), Cause: err}
	}
	return dispatch.Classify(ctx, w.task.upstream, err)
}
