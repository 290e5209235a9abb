package metatool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// caller makes the calls to upstreams. Its call is the Sender of the pipelines.
type caller struct {
	upstreams Upstreams
	state     *State
	redactor  *result.Redactor
	redact    bool // removes secrets from results
	screen    result.Screen
	logger    *slog.Logger
	flow      *flow.Flow    // nil: results have no labels
	taskTTL   time.Duration // how long servers are asked to keep a task
}

// call sends a call to the upstream. Requests and notifications of the upstream reach the calling
// agent:
//
//	upstream ── progress, log messages of the session's level ──▶ agent
//	         ── sampling, elicitation, roots ──▶ agent's request (legacy), or its next
//	            round (modern: see bridge.Rounds, which runs before the gateway)
//	agent ── cancellation: the end of ctx ──▶ upstream
func (a *caller) call(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	give, err := takeParams(ctx, c)
	if err != nil {
		return nil, dispatch.Classify(ctx, c.Entry.Upstream, err)
	}
	defer give()
	params, err := dispatch.UpstreamParams(c)
	if err != nil {
		return nil, err
	}
	c.Attempts++
	answer, err := a.callUpstream(ctx, c, c.Method, params)
	c.Ran = c.Method == "" && (err == nil || errors.Is(err, mcp.ErrAnswered))
	if err == nil {
		answer, err = a.clean(ctx, answer)
	}
	if err != nil {
		err = dispatch.Classify(ctx, c.Entry.Upstream, err)
		if e := (*result.Error)(nil); c.Ran && errors.As(err, &e) {
			e.Message = c.Entry.ID + " HAS run, but its answer cannot be used: " + e.Message
		}
		return nil, err
	}
	return answer, nil
}

// takeParams takes the bytes of the params of a call, and reserves the bytes of the message with them. give
// returns the bytes of the params when the server has answered.
func takeParams(ctx context.Context, c *dispatch.Call) (give func(), err error) {
	room := dispatch.ParamsRoom(c)
	err = memory.Reserve(ctx, 2*room)
	if err == nil {
		err = memory.Take(ctx, room)
	}
	if err != nil {
		return nil, mcp.NoRoom("the message for server "+strconv.Quote(c.Entry.Upstream), err)
	}
	return func() { memory.Give(ctx, room) }, nil
}

// clean returns the result of a server without secrets, if results have none.
func (a *caller) clean(ctx context.Context, answer json.RawMessage) (json.RawMessage, error) {
	if !a.redact {
		return answer, nil
	}
	clean, err := a.redactor.LargeResults(answer, makerOf(ctx))
	if err != nil {
		return nil, mcp.NoRoom("the result without secrets", err)
	}
	return clean, nil
}

// callUpstream makes one admitted call for the agent. An empty method means tools/call. It returns
// the upstream's error unchanged.
func (a *caller) callUpstream(ctx context.Context, c *dispatch.Call, method string, params json.RawMessage) (json.RawMessage, error) {
	if method == "" {
		method = "tools/call"
	}
	if err := c.Pass.Check(method); err != nil {
		return nil, err
	}
	c.Lap(telemetry.StepPrepare)
	ctx = mcp.WithCaller(ctx, c.Request.Session)
	if err := c.Pass.Holds(ctx); err != nil {
		return nil, asProtocol(err)
	}
	peer, err := a.upstreams.Peer(ctx, c.Entry.Upstream)
	if c.Lap(telemetry.StepConnect); err != nil {
		return nil, err
	}
	defer c.Lap(telemetry.StepServer)
	if method == methodCall {
		ctx = a.offerTask(ctx, c, peer)
	}
	back := bridge.Back{Request: c.Request, Server: `server "` + c.Entry.Upstream + `"`, OnAsk: c.OnAsk, OnTell: c.OnTell, Question: a.asks(c.Entry.Upstream)}
	if back.Level, err = a.levelOf(ctx, c, peer); err != nil {
		return nil, err
	}
	asked, before := c.Flow(), c.Label.Join(c.Carried)
	label := a.flow.Of(asked)
	c.Meanwhile = before.Join(label)
	c.Label = c.Meanwhile
	server := a.screen.Peer(peer)
	c.Sent = true
	result, err := bridge.Call(ctx, server, method, params, &back)
	if page := signInPage(err); page != "" && canOpenPages(c.Request) {
		c.Asked = true
		if signIn(ctx, c.Request, peer, c.Entry.Upstream, page) {
			if err := c.Pass.Holds(ctx); err != nil {
				return nil, asProtocol(err)
			}
			result, err = bridge.Call(ctx, server, method, params, &back)
		}
	}
	c.Asked = c.Asked || back.Asked()
	c.Label = before.Join(a.flow.Answered(asked, label, result))
	return withoutOwnMeta(result), err
}

// redactError removes secrets and invisible characters from an upstream's error that becomes a
// protocol error for an agent. It returns err itself if nothing changes.
func (a *caller) redactError(err error) error {
	var answered *jsonrpc.Error
	var own *mcp.Error
	switch {
	case errors.As(err, &answered): // first: this error of the chain is sent
		message, data := a.redactor.Redact(visible.Text(answered.Message)), a.redactor.Results(answered.Data)
		if message != answered.Message || !bytes.Equal(data, answered.Data) {
			return &jsonrpc.Error{Code: answered.Code, Message: message, Data: data}
		}
	case errors.As(err, &own):
		message, data := a.redactor.Redact(visible.Text(own.Message)), a.redactor.Results(own.Data)
		if message != own.Message || !bytes.Equal(data, own.Data) {
			return &mcp.Error{Kind: own.Kind, Message: message, Data: data, Err: err}
		}
	}
	return err
}

// levelOf returns the log level of the messages that the agent gets during a call. It sets the
// level at the upstream if possible; a failure to do so does not fail the call.
func (a *caller) levelOf(ctx context.Context, c *dispatch.Call, peer mcp.Peer) (string, error) {
	levels := a.state.levels(c.Entry.Upstream)
	server, _ := peer.(bridge.Leveler)
	failed := func(err error) {
		a.logger.DebugContext(ctx, "an upstream's log level could not be set", "upstream", c.Entry.Upstream, "err", err)
	}
	if level := c.Request.Session.LogLevel(); level != "" && server != nil && !c.Request.Modern() && a.state.session(c.Request).tells(c.Entry.Upstream, level) {
		if err := levels.Set(ctx, server, level); err != nil {
			failed(err)
		}
	}
	return levels.OfCall(ctx, c.Request, server, failed)
}

// levels returns the log level state of an upstream.
func (s *State) levels(upstream string) *bridge.Levels {
	if l, ok := s.leveled.Load(upstream); ok {
		return l.(*bridge.Levels)
	}
	l, _ := s.leveled.LoadOrStore(upstream, new(bridge.Levels))
	return l.(*bridge.Levels)
}

// tells reports whether an upstream must still be told the session's log level, and records it as
// told.
func (st *sessionState) tells(upstream, level string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.told[upstream] == level {
		return false
	}
	if st.told == nil {
		st.told = map[string]string{}
	}
	st.told[upstream] = level
	return true
}
