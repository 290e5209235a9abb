package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
)

// TestSpansOfARun: a run is a span of the agent's trace, each call of its program is a child of it, and the server is
// told of that child.
func TestSpansOfARun(t *testing.T) {
	t.Parallel()
	const trace, agent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	up, collector := newUpServer(t), tracetest.New(t)
	close(up.open)
	g, front := newAsked(t, "otlp: {url: \""+collector.URL+"\", sample: 0}\nmcpServers: {up: {url: \""+up.URL+"/mcp\"}}")
	got := <-front.asks(t, "tool_run", program(`await Promise.all([1, 2].map(n => tools.up.echo({text: "n" + n})));
		await tools.up.refuse({}).catch(() => 0); return await call("up:none#00000000", {}).catch(() => "all")`),
		`,"_meta":{"traceparent":"00-`+trace+`-`+agent+`-01"}`)
	if !strings.Contains(got, `"text":"all"`) {
		t.Fatal(got)
	}
	g.Reports.Trace.Close(context.WithoutCancel(t.Context()))
	var run tracetest.Span
	calls := map[string]tracetest.Span{} // by id
	for _, s := range collector.Spans() {
		switch {
		case s.Trace != trace:
			t.Errorf("a span of another trace: %+v", s)
		case s.Kind == "server":
			run = s
		default:
			calls[s.ID] = s
		}
	}
	if run.Name != "tools/call tool_run" || run.Parent != agent || run.Failed || len(calls) != 3 {
		t.Fatalf("the run is %+v, with %d calls: %+v", run, len(calls), calls)
	}
	names := map[string]int{}
	for _, s := range calls {
		names[s.Name]++
		outside := s.Start.Before(run.Start) || s.End.After(run.End)
		if s.Parent != run.ID || s.Attributes["weir.server"] != "up" || outside || s.Failed != (s.Name == "tools/call refuse") {
			t.Errorf("%+v, of the run %+v", s, run)
		}
	}
	if names["tools/call echo"] != 2 || names["tools/call refuse"] != 1 {
		t.Errorf("the calls are %v", names)
	}
	up.mu.Lock()
	sent := slices.Clone(up.calls)
	up.mu.Unlock()
	for _, body := range sent {
		params := rawjson.Get([]byte(body), "params")
		parent := strings.Split(rawjson.Text(rawjson.GetPath(params, "_meta", "traceparent")), "-")
		if len(parent) != 4 || parent[1] != trace || calls[parent[2]].Name != "tools/call "+rawjson.Text(rawjson.Get(params, "name")) {
			t.Errorf("the server is told of %q: %s", parent, body)
		}
		if len(parent) == 4 {
			delete(calls, parent[2])
		}
	}
	if len(sent) != 3 || len(calls) != 0 {
		t.Errorf("the server got %d calls, and not those of %+v", len(sent), calls)
	}
}
