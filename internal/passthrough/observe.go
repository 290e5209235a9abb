package passthrough

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Observer observes calls through a Router. Its methods are called concurrently and must be fast.
type Observer interface {
	// RequestStarted and RequestEnded are called once per forwarded request. They are not called
	// for requests that reach an upstream as a Peer.
	RequestStarted(upstream string)
	RequestEnded(upstream string, took time.Duration)
	// Called is called after the answer to a call of a tool, a prompt or a resource.
	Called(c Call)
}

// Call is one call of an agent.
type Call struct {
	Upstream           string // its name in the URL
	Method             string
	Tool               string // of tools/call, as the agent wrote it
	Principal, Session string // the latter may be ""
	Began              time.Time
	Took               time.Duration
	// Err is the error in the agent's answer, or a *jsonrpc.Error of the upstream. Unread says that
	// the answer was copied without parsing, so that Err is nil even if it was an error. IsError is
	// the flag of the tool's result.
	Err     error
	Unread  bool
	IsError bool
}

// maxLook is the longest result that is searched for isError.
const maxLook = 64 << 10

// observed calls next and reports the request to the Observer, which may be nil.
func (p *passthrough) observed(ctx context.Context, r *mcp.Request, next func(context.Context, *mcp.Request) (json.RawMessage, error)) (json.RawMessage, error) {
	if p.observer == nil || !bridge.MayAsk(r.Method) {
		return next(ctx, r)
	}
	c := Call{Upstream: p.name, Method: r.Method, Principal: r.Session.Principal(), Session: r.Session.ID(), Began: time.Now()}
	if r.Method == "tools/call" {
		c.Tool = rawjson.Text(r.Fields().Name)
	}
	result, err := next(ctx, r)
	c.Took, c.Err = time.Since(c.Began), err
	c.IsError = err == nil && len(result) <= maxLook && string(rawjson.Get(result, "isError")) == "true"
	p.observer.Called(c)
	return result, err
}

// observed reports whether the Observer observes the exchange.
func (x *exchange) observed() bool { return x.fw.o.Observer != nil && !x.endless && x.e.id != "" }

// observe reports the start of the exchange to the Observer; the caller calls observeEnd after it.
func (x *exchange) observe() {
	if x.observed() {
		x.began = time.Now()
		x.fw.o.Observer.RequestStarted(x.f.name)
	}
}

// observeEnd reports the end of the exchange to the Observer.
func (x *exchange) observeEnd() {
	if !x.observed() {
		return
	}
	took := time.Since(x.began)
	x.fw.o.Observer.RequestEnded(x.f.name, took)
	if !bridge.MayAsk(x.e.method) || x.again {
		return
	}
	x.fw.o.Observer.Called(Call{
		Upstream: x.f.name, Method: x.e.method, Tool: x.e.tool, Principal: guard.Principal(x.r.Context()), Session: x.r.Header.Get(streamable.HeaderSession),
		Began: x.began, Took: took, Err: x.err, Unread: x.err == nil,
	})
}

// follow starts the operation of a request, whose context goes to the upstream in its params and in
// a header. The returned function ends it. The context joins the bytes of the request as they are
// sent, so a large body has no second copy.
func (x *exchange) follow() (ended func()) {
	t := x.fw.o.Trace
	if t == nil || x.endless || x.e.id == "" || x.b == nil {
		return func() {}
	}
	to := func() trace.Server { return trace.ServerAt(x.f.name, x.t.URL) }
	x.trace, x.edit = t.Forward(to, x.e.method, x.r.Header, x.b.buf)
	return func() {
		if !x.again {
			x.trace.End(x.err)
		}
	}
}

// tellRefused reports a request that reached no upstream to the Observer and the Tracer.
func (f *face) tellRefused(r *http.Request, e envelope, b *body, err error) {
	if e.id != "" && b != nil {
		f.rt.o.Trace.Refused(f.name, e.method, r.Header, b.buf, err)
	}
	if o := f.rt.o.Observer; o != nil && e.id != "" && bridge.MayAsk(e.method) {
		o.Called(Call{
			Upstream: f.name, Method: e.method, Tool: e.tool, Principal: guard.Principal(r.Context()), Session: r.Header.Get(streamable.HeaderSession),
			Began: time.Now(), Err: err,
		})
	}
}

// noteStatus records a refusal of the upstream by status.
func (x *exchange) noteStatus(resp *http.Response) {
	if resp.StatusCode >= http.StatusBadRequest {
		x.err = streamable.StatusFailure(x.who(), clip(x.method()), resp)
	}
}
