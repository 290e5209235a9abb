package passthrough_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
)

// TestSpansOfEachWay: every request of an agent is a span, either way to the upstream, with the error
// that the agent is answered.
func TestSpansOfEachWay(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			collector := tracetest.New(t)
			tracer := trace.New(trace.Options{})
			if err := tracer.Configure(trace.Settings{URL: collector.URL + "/v1/traces", Timeout: time.Minute}); err != nil {
				t.Fatal(err)
			}
			e := w.start(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) { o.Trace = tracer })
			session := e.initialize("2025-11-25")
			for i, tool := range []string{"echo", "refuse", "fail"} {
				e.post("/mcps/fake/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"x"}}}`, i+1, tool),
					"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25", "Traceparent", "00-"+id+"-b7ad6b7169203331-01")
			}
			long := strings.Repeat("y", 50_000) // read from two places and the context
			r := e.post("/mcps/fake/mcp", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`+long+`"}}}`,
				"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25", "Traceparent", "00-"+id+"-b7ad6b7169203331-01")
			if !strings.Contains(r.body, long) {
				t.Errorf("a long call: %d %.200s", r.status, r.body)
			}
			tracer.Close(context.WithoutCancel(t.Context()))
			seen := map[string]tracetest.Span{}
			for _, s := range collector.Spans() {
				if s.Trace != id || s.Attributes["weir.server"] != "fake" {
					t.Errorf("%+v", s)
				}
				if s.Kind == "server" {
					seen[s.Name] = s
				}
			}
			for name, failure := range map[string]string{"tools/call echo": "", "tools/call refuse": "tool_error", "tools/call fail": "-32603"} {
				s, ok := seen[name]
				if !ok || s.Attributes["error.type"] != failure || s.Failed != (failure != "") || s.Attributes["mcp.session.id"] == "" {
					t.Errorf("%s: %+v", name, s)
				}
			}
		})
	}
}

// TestRefusedIsASpan: a request that reaches no upstream is a span with the error that the agent is
// answered, and no request to a server.
func TestRefusedIsASpan(t *testing.T) {
	collector := tracetest.New(t)
	tracer := trace.New(trace.Options{})
	if err := tracer.Configure(trace.Settings{URL: collector.URL + "/v1/traces", Sample: 1, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	limits := passthrough.Limits{PerMinute: 1}
	e := startHTTP(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) {
		o.Trace, o.Limits = tracer, func(string) passthrough.Limits { return limits }
	})
	e.initialize("2025-11-25")
	res := e.post("/mcps/fake/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, "Mcp-Protocol-Version", "2025-11-25")
	tracer.Close(context.WithoutCancel(t.Context()))
	n := 0
	for _, s := range collector.Spans() {
		if s.Name == "tools/call echo" {
			if n++; s.Kind != "server" || !s.Failed || s.Attributes["rpc.response.status_code"] == "" || s.Attributes["jsonrpc.request.id"] != "7" {
				t.Errorf("%+v", s)
			}
		}
	}
	if n != 1 || res.status != 429 {
		t.Errorf("%d spans of the refused request, which is answered %d %s", n, res.status, res.body)
	}
}
