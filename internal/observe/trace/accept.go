package trace

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// An Accepted is a call of a tool that reaches this process in another form than a request of MCP,
// such as an event of A2C-SMCP. The methods of one without a span do nothing.
type Accepted struct{ span *span }

// Accept starts the span of a call of a tool, if its trace is sampled. server is the receiver's
// name, and carrier is an object with the members traceparent and tracestate. Observe is not called:
// the call is no operation of MCP.
func (t *Tracer) Accept(server, tool string, carrier json.RawMessage) (a Accepted) {
	if t == nil {
		return a
	}
	if e := t.exporter.Load(); e != nil {
		if a.span = e.root(carrier, nil, "tools/call", rawjson.Quote(tool), time.Now()); a.span != nil {
			a.span.text("weir.server", server)
			a.span.over(true)
		}
	}
	return a
}

// Sampled reports whether the call has a span.
func (a Accepted) Sampled() bool { return a.span != nil }

// Context returns ctx with the call's span, ctx itself without one.
func (a Accepted) Context(ctx context.Context) context.Context {
	if a.span == nil {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, a.span)
}

// Carried returns carrier with the call's span as the parent, carrier itself without one.
func (a Accepted) Carried(carrier json.RawMessage) json.RawMessage {
	if a.span == nil {
		return carrier
	}
	out, err := rawjson.Set(carrier, "traceparent", rawjson.Quote(a.span.traceparent()))
	if err != nil {
		return carrier
	}
	return out
}

// End ends the call with its result, or with the type of its error.
func (a Accepted) End(result json.RawMessage, failure string) {
	if a.span == nil {
		return
	}
	o := outcome{errorType: failure}
	if failure == "" {
		o = outcomeOf("tools/call", result, nil)
	}
	a.span.end(time.Now(), o)
}
