package metatool

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// BenchmarkKept measures tool_execute of a principal in the modern era, with a quota, whose state is in documents in
// memory, against the same without documents.
func BenchmarkKept(b *testing.B) {
	snapshot := manyTools(500)
	u := &still{snapshot: snapshot, peer: fixed(calltest.Text(strings.Repeat("some words. ", 80)))}
	id := snapshot.Catalog.Entries()[7].ID
	limits := dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolExecute: {PerSession: 1 << 40}}}
	run := func(keep bool) func() {
		results := artifact.NewMemory(artifact.Options{})
		b.Cleanup(func() { results.Close() })
		s := NewState()
		if keep {
			if err := s.Keep(b.Context(), store.NewMemory(store.MemoryOptions{MaxBytes: 64 << 20}), slog.New(slog.DiscardHandler)); err != nil {
				b.Fatal(err)
			}
		}
		b.Cleanup(func() { s.Close(b.Context()) })
		g := New(Options{Upstreams: u, Artifacts: results, RateLimits: limits, State: s})
		session := mcp.NewSession("", "ann")
		r := &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20260728, Session: session, Peer: mcp.NoPeer,
			Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"id":"12345","project":"the quick brown fox"}}}`)}
		return func() {
			if _, err := g.Serve(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	}
	perCall(b, run(true), run(false))
}
