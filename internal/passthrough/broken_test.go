package passthrough_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
	"github.com/weir-mcp/weir/mcp"
)

// TestBrokenAnswersAreFailures: an answer that breaks off, takes too long or is too large is a failure
// in what the Observer and the spans tell, also when its first bytes have reached the agent.
func TestBrokenAnswersAreFailures(t *testing.T) {
	const bound = 1 << 20
	answer := func(kind, length string, begin []byte, then func(r *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", kind)
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = w.Write(begin)
			_ = http.NewResponseController(w).Flush()
			then(r)
		}
	}
	const events, one = "text/event-stream", "application/json"
	breaks := func(*http.Request) { panic(http.ErrAbortHandler) }
	waits := func(r *http.Request) { <-r.Context().Done() }
	long := bytes.Repeat([]byte("x"), 300<<10)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    mcp.Kind
	}{
		"a stream breaks off":                 {answer(events, "", []byte("data: {}\n\n"), breaks), mcp.KindUpstreamUnavailable},
		"a stream with ids breaks off":        {answer(events, "", []byte("id: 1\ndata: {}\n\n"), breaks), mcp.KindUpstreamUnavailable},
		"a stream breaks off within an event": {answer(events, "", []byte("data: {"), breaks), mcp.KindUpstreamUnavailable},
		"a stream takes too long":             {answer(events, "", []byte("data: {}\n\n"), waits), mcp.KindUpstreamTimeout},
		"a long answer breaks off":            {answer(one, "", long, breaks), mcp.KindUpstreamUnavailable},
		"a long answer takes too long":        {answer(one, "", long, waits), mcp.KindUpstreamTimeout},
		"a long answer is over the bound":     {answer(one, "", bytes.Repeat(long, 4), waits), mcp.KindUpstreamProtocol},
		"an answer announces too much":        {answer(one, "2000000", long, waits), mcp.KindUpstreamProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collector, seen := tracetest.New(t), &recorder{}
			tracer := trace.New(trace.Options{})
			if err := tracer.Configure(trace.Settings{URL: collector.URL + "/v1/traces", Timeout: time.Minute}); err != nil {
				t.Fatal(err)
			}
			e := inFront(t, c.handler, func(to *passthrough.Target, o *passthrough.Options) {
				to.Version = mcp.V20260728
				o.MaxResponse, o.Observer, o.Trace, o.Logger = bound, seen, tracer, slog.New(slog.DiscardHandler)
				if c.want == mcp.KindUpstreamTimeout {
					to.Timeout = 100 * time.Millisecond
				}
			})
			r := e.request(t.Context(), http.MethodPost, mcpPath, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
				"Mcp-Protocol-Version", mcp.V20260728, "Mcp-Method", "tools/call", "Mcp-Name", "t")
			r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			resp, err := e.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			call := seen.seen(t, 1)[0]
			if kind, _ := mcp.KindOf(call.Err); call.Err == nil || kind != c.want || call.Unread {
				t.Errorf("%+v, want an error of %v", call, c.want)
			}
			tracer.Close(context.WithoutCancel(t.Context()))
			for _, s := range collector.Spans() {
				if !s.Failed || s.Attributes["error.type"] == "" {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}
