package web

import (
	"bytes"
	"io"
	"net/http"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// maxTraced bounds the messages to /messages whose headers are read. Larger ones pass as they are.
const maxTraced = 64 << 10

// traced copies the trace context of a request to /messages into its message. The handler of the
// message answers on the event stream of another HTTP request, and sees only the headers of that request.
func traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || len(r.Header["Traceparent"]) == 0 && len(r.Header["Baggage"]) == 0 || r.ContentLength <= 0 || r.ContentLength > maxTraced {
			next.ServeHTTP(w, r)
			return
		}
		body, err := guard.ReadBody(w, r, maxTraced, nil, nil)
		if err != nil {
			kind, _ := mcp.KindOf(err)
			guard.WriteError(w, kind.Info().HTTP, guard.RequestID(err), err)
			return
		}
		body = withTrace(body, r.Header)
		next.ServeHTTP(w, withBody(r, body))
	})
}

// withBody returns a request with another body.
func withBody(r *http.Request, body []byte) *http.Request {
	out := r.WithContext(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return out
}

// withTrace returns a message with the trace context of headers in its _meta. What is no request stays
// as it is: the reader of the message reports errors.
func withTrace(body []byte, h http.Header) []byte {
	if _, err := jsonrpc.CheckText(body); err != nil || rawjson.IsArray(body) {
		return body
	}
	m, err := jsonrpc.Parse(body)
	if err != nil || m.Kind() != jsonrpc.Request {
		return body
	}
	r := &mcp.Request{ID: m.ID, Method: m.Method, Params: m.Params}
	if r = telemetry.WithTrace(r, h); len(r.Params) > 0 {
		if edited, err := rawjson.Set(body, "params", r.Params); err == nil {
			return edited
		}
	}
	return body
}
