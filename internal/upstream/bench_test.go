package upstream

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// BenchmarkCall compares a call over an Upstream with one over the same kind of
// connection without it.
func BenchmarkCall(b *testing.B) {
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	m := New(Options{open: f.open})
	defer m.Close(b.Context())
	m.Apply([]*mcpserver.Server{{Name: "fake", Command: "fake", Timeout: time.Minute}})
	if err := m.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	u, _ := m.Upstream("fake")
	u.conns.shared.calls.mu.Lock()
	direct := u.conns.shared.calls.link.peer
	u.conns.shared.calls.mu.Unlock()
	ctx := mcp.WithCaller(b.Context(), mcp.NewSession("", "a"))
	params := json.RawMessage(`{"name":"a","arguments":{"text":"hello"}}`)
	measure := func(p mcp.Peer) time.Duration {
		began := time.Now()
		for range b.N {
			if _, err := p.Call(ctx, "tools/call", params, nil); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began)
	}
	b.ReportAllocs()
	b.ResetTimer()
	over := measure(u)
	b.StopTimer()
	baseline := measure(direct)
	b.ReportMetric(float64(over)/float64(max(baseline, 1)), "x_baseline")
}

// BenchmarkOwnLists keeps the listings of many principals, of 1,000 tools each, which differ in one
// tool. It prints the heap that a principal takes.
func BenchmarkOwnLists(b *testing.B) {
	const principals, tools = 50, 1000
	for b.Loop() {
		s := newShelf()
		first := s.put(rosterOf(tools, 0), nil)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range principals {
			s.put(rosterOf(tools, i+1), nil)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/principals, "B/principal")
		runtime.KeepAlive(first)
		runtime.KeepAlive(s)
	}
}
