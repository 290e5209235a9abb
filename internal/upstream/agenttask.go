package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// agentTasks requests tasks from an agent server, which tells them at a URL of its own
// (docs/agents.md, "Long work: tasks"):
//
//	tasks/get     ─▶ GET    getTaskStatus?taskId=…
//	tasks/cancel  ─▶ DELETE getTaskStatus?taskId=…
//
// It uses the transport of one connection, so that requests are signed for the same principal.
type agentTasks struct {
	srv       *server
	transport http.RoundTripper
}

// TellsAgentTasks reports whether the server is an agent server, which may answer a call with a task
// of its own kind: see mcptask.Offer.
func (srv *server) TellsAgentTasks() bool { return srv.cfg.Agent && srv.endpoint != nil }

// over returns a wrap that does what the given one does, which may be nil, and keeps the transport.
func (a *agentTasks) over(wrap func(http.RoundTripper) http.RoundTripper) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		a.transport = base
		if wrap != nil {
			a.transport = wrap(base)
		}
		return a.transport
	}
}

// call makes a request about a task. The result of tasks/get is what the server answered, a task for
// mcptask.ReadAgent. An answer that is about no task is a *jsonrpc.Error.
func (a *agentTasks) call(ctx context.Context, timeout time.Duration, method string, params json.RawMessage) (json.RawMessage, error) {
	verb := http.MethodGet
	switch method {
	case mcptask.MethodGet:
	case mcptask.MethodCancel:
		verb = http.MethodDelete
	default:
		return nil, mcp.MethodNotFound(method)
	}
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	h := streamable.OwnHeader(a.srv.header)
	h.Set("Accept", streamable.ContentJSON)
	to := mcptask.AgentTaskURL(a.srv.endpoint, rawjson.Text(rawjson.Get(params, "taskId")))
	resp, err := a.transport.RoundTrip((&http.Request{
		Method: verb, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
	}).WithContext(limited))
	var body []byte
	if err != nil {
		err = streamable.TransportFailure(a.srv.who, err)
	} else {
		defer resp.Body.Close()
		body, err = a.read(ctx, resp)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && limited.Err() != nil:
		return nil, mcp.Errorf(mcp.KindUpstreamTimeout, "%s did not answer getTaskStatus within %s", a.srv.who, timeout)
	case err != nil:
		return nil, err
	}
	return a.answer(verb, resp.StatusCode, body)
}

// read reads the body of an answer. Its bytes count for the server.
func (a *agentTasks) read(ctx context.Context, resp *http.Response) ([]byte, error) {
	b := a.srv.room().NewBuffer(ctx, a.srv.maxResponse())
	err := b.Fill(resp.Body, resp.ContentLength)
	if err == nil {
		block, err := b.Block()
		if err != nil {
			return nil, err
		}
		data, err := block.Open(ctx)
		if err != nil {
			block.Release()
			return nil, err
		}
		return rawjson.RepairText(block.Deliver(ctx, data)), nil
	}
	b.Drop()
	full := (*memory.Error)(nil)
	switch {
	case errors.Is(err, memory.ErrTooLarge):
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered getTaskStatus with more than %d bytes", a.srv.who, a.srv.maxResponse())
	case errors.As(err, &full):
		return nil, err
	}
	return nil, streamable.TransportFailure(a.srv.who, err)
}

// answer returns what the server said of a task.
func (a *agentTasks) answer(verb string, status int, body []byte) (json.RawMessage, error) {
	wire := rawjson.Get(body, "error")
	switch {
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented, status == http.StatusTooManyRequests:
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s answered getTaskStatus with the HTTP status %d", a.srv.who, status)
	case status < 300 && (mcptask.IsAgentTask(body) || verb == http.MethodDelete):
		return body, nil
	case rawjson.IsObject(wire):
		code, _ := rawjson.Int(rawjson.Get(wire, "code"))
		return nil, &jsonrpc.Error{Code: code, Message: rawjson.Text(rawjson.Get(wire, "message"))}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: a.srv.who + " tells no such task at getTaskStatus: HTTP status " + strconv.Itoa(status)}
}
