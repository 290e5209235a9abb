package trace

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// A Forwarded is a request whose bytes are handed on to a server: an operation of the agent, and one
// to the server. End of the zero Forwarded does nothing.
type Forwarded struct {
	by             *Tracer
	server, client *span // both or none
	method         string
	began          time.Time
	read           outcome // the outcome by the answer, if it was read
}

// Forward starts a request with the method to a server. h are the headers of the agent's HTTP
// request, and message is its body. If the request has a span, the edit puts the span's context into
// the message.
func (t *Tracer) Forward(to func() Server, method string, h http.Header, message []byte) (f Forwarded, e Edit) {
	if t == nil {
		return f, e
	}
	f = Forwarded{by: t, method: method, began: time.Now()}
	m := f.accept(h, message)
	if f.server == nil {
		return f, e
	}
	server := to()
	f.describe(server.Name, h, &m)
	f.client = f.server.child(&server, method, rawjson.Get(m.Params, "name"), f.began)
	return f, f.client.edit(message)
}

// accept starts the span of the agent's request, if its trace is sampled.
func (f *Forwarded) accept(h http.Header, message []byte) (m jsonrpc.Message) {
	e := f.by.exporter.Load()
	if e == nil {
		return m
	}
	m, err := jsonrpc.Parse(message)
	if err == nil {
		f.server = e.root(rawjson.Get(m.Params, "_meta"), h, f.method, rawjson.Get(m.Params, "name"), f.began)
	}
	return m
}

// describe adds attributes of the agent's request m.
func (f *Forwarded) describe(server string, h http.Header, m *jsonrpc.Message) {
	f.server.describe(server, h.Get(streamable.HeaderSession), h.Get(streamable.HeaderVersion), m.ID, true)
}

// Refused reports a request that weir answers with an error before a handler reads it: an operation
// of only the agent. Its arguments are as in Forward.
func (t *Tracer) Refused(server, method string, h http.Header, message []byte, err error) {
	if t == nil || Lasts(method) {
		return
	}
	f := Forwarded{by: t, method: method, began: time.Now()}
	if m := f.accept(h, message); f.server != nil {
		f.describe(server, h, &m)
	}
	f.endServer(outcomeOf(method, nil, err), err)
}

// Traceparent returns the context for the header of the request to the server, "" without a span.
func (f *Forwarded) Traceparent() string {
	if f.client == nil {
		return ""
	}
	return f.client.traceparent()
}

// Context returns ctx with the span of the agent's request, ctx itself without one.
func (f *Forwarded) Context(ctx context.Context) context.Context {
	if f.server == nil {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, f.server)
}

// Read takes the outcome from the response. It ignores any other message. It is only for spans:
// without one responses are not parsed.
func (f *Forwarded) Read(message []byte) {
	if f.client == nil || len(message) > maxLook {
		return
	}
	m, err := jsonrpc.Parse(message)
	if err != nil || m.Method != "" {
		return
	}
	if m.Err != nil {
		code := strconv.Itoa(jsonrpc.ParseError(m.Err).Code)
		f.read = outcome{code, code}
		return
	}
	f.read = outcomeOf(f.method, m.Result, nil)
}

// End ends both operations. err is the error that the agent gets from weir, or nil.
func (f *Forwarded) End(err error) {
	if f.by == nil {
		return
	}
	o := f.read
	if err != nil {
		o = outcomeOf(f.method, nil, err)
	}
	f.by.ended(f.client, Operation{Client: true, Method: f.method, ErrorType: o.errorType}, o, f.began)
	f.endServer(o, err)
}

// endServer ends the operation of the agent.
func (f *Forwarded) endServer(o outcome, err error) {
	if err != nil && o.status == "" {
		o = answered(err, "")
	}
	f.by.ended(f.server, Operation{Method: f.method, ErrorType: o.errorType}, o, f.began)
}
