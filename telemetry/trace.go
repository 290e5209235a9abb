package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// traceparent is the form of the W3C trace context's header of that name.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// maxTracestate bounds the header that vendors fill, as the W3C text does.
const maxTracestate = 512

// TraceContext puts the trace context of a request's HTTP headers into its
// _meta, where it travels on to the MCP server over every transport: a trace
// that began at the agent goes on there. What the _meta has already stays, and
// a header that is none is ignored. header returns the headers of the request
// that ctx belongs to, nil where there are none.
func TraceContext(next mcp.Handler, header func(ctx context.Context) http.Header) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		h := header(ctx)
		parent := h.Get("Traceparent")
		if parent == "" || r.IsNotification() || !traceparent.MatchString(parent) || rawjson.GetPath(r.Params, "_meta", "traceparent") != nil {
			return next.Serve(ctx, r)
		}
		params, err := rawjson.SetPath(r.Params, rawjson.Quote(parent), "_meta", "traceparent")
		if state := h.Get("Tracestate"); err == nil && state != "" && len(state) <= maxTracestate {
			params, err = rawjson.SetPath(params, rawjson.Quote(state), "_meta", "tracestate")
		}
		if err != nil {
			return next.Serve(ctx, r) // whoever reads the params says what is wrong with them
		}
		traced := *r
		traced.Params = params
		return next.Serve(ctx, &traced)
	})
}
