package telemetry

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// traceparent is the form of the W3C trace context's header of that name.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Limits of the W3C specifications.
const (
	maxTracestate = 512
	maxBaggage    = 8192
)

// WithTrace returns a request with the trace context and the baggage of its HTTP headers in its _meta.
// From there they reach the MCP server over every transport, so that an agent's trace continues there.
// It keeps the trace that _meta already has and ignores malformed headers. A request without such
// headers is returned as it is; h may be nil.
func WithTrace(r *mcp.Request, h http.Header) *mcp.Request {
	if r.IsNotification() || h.Get("Traceparent") == "" && h.Get("Baggage") == "" {
		return r
	}
	params, err := traced(r.Params, r.Fields().RawMeta, h)
	if err != nil {
		return r // the reader of the params reports the error
	}
	out := *r
	out.Params = params
	return &out
}

// traced returns params with the headers in their _meta.
func traced(params, meta json.RawMessage, h http.Header) (out json.RawMessage, err error) {
	out = params
	add := func(key, value string) {
		if err == nil {
			out, err = rawjson.SetPath(out, rawjson.Quote(value), "_meta", key)
		}
	}
	if parent := h.Get("Traceparent"); traceparent.MatchString(parent) && rawjson.Get(meta, "traceparent") == nil {
		add("traceparent", parent)
		if state := h.Get("Tracestate"); state != "" && len(state) <= maxTracestate {
			add("tracestate", state)
		}
	}
	// Several headers are one list (RFC 9110 §5.3).
	if baggage := strings.Join(h.Values("Baggage"), ","); baggage != "" && len(baggage) <= maxBaggage && rawjson.Get(meta, "baggage") == nil {
		add("baggage", baggage)
	}
	return out, err
}
