package metatool

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// perCall measures a request in turns with another one, so that what else the
// machine does meets both, and reports the first as a multiple of the second.
func perCall(b *testing.B, run, baseline func()) {
	const turn = 50
	var ours, base time.Duration
	turns := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		run()
		ours += time.Since(start)
		if i%turn == 0 {
			b.StopTimer()
			for range turn {
				start = time.Now()
				baseline()
				base += time.Since(start)
			}
			turns += turn
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(ours)/float64(b.N)/(float64(base)/float64(turns)), "x_baseline")
}

func server(b *testing.B, u Upstreams, opts Options) func(params string) func() {
	store := artifact.NewMemory(artifact.Options{})
	b.Cleanup(func() { store.Close() })
	opts.Upstreams, opts.Artifacts = u, store
	g := New(opts)
	session := mcp.NewSession("s", "ann")
	return func(params string) func() {
		r := &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer, Params: json.RawMessage(params)}
		return func() {
			if _, err := g.Serve(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkControls measures tool_execute with policy, quotas, cache and retry
// on, against the same gateway with all of them off. The upstream answers at
// once, so all that differs is the controls.
func BenchmarkControls(b *testing.B) {
	snapshot := manyTools(500)
	u := &still{snapshot: snapshot, peer: fixed(calltest.Text(strings.Repeat("some words. ", 80)))}
	id := snapshot.Catalog.Entries()[7].ID
	params := `{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"id":"12345","project":"the quick brown fox"}}}`
	no := false
	policy := &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "*:drop_*"}, {Action: dispatch.RequireApproval, Tags: []string{"destructive"}}, {Action: dispatch.Deny, Namespace: "prod", ReadOnly: &no}}}
	limits := dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolExecute: {PerSession: 1 << 40}}, Tools: map[string]dispatch.RateLimit{id: {PerSession: 1 << 40}}}
	for _, bb := range []struct {
		name string
		opts Options
	}{
		{"policy", Options{Policy: policy}},
		{"quota", Options{RateLimits: limits}},
		{"retry", Options{Retry: dispatch.RetryPolicy{MaxAttempts: 3}}},
		{"tolerant", Options{TolerantArgs: true}},
		{"all", Options{Policy: policy, RateLimits: limits, Retry: dispatch.RetryPolicy{MaxAttempts: 3}, TolerantArgs: true, Cache: dispatch.CacheOptions{ReadOnly: true}, OnEvent: func(Event) {}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			perCall(b, server(b, u, bb.opts)(params), server(b, u, Options{})(params))
		})
	}
}

// BenchmarkCache measures calls of a read-only tool: misses, all of which are
// kept, against a gateway without a cache, and hits against the same.
func BenchmarkCache(b *testing.B) {
	s, _ := NewSnapshot(catalog.Limits{}).With(primitive.Listing{Upstream: "db", Namespace: "db", Tools: []json.RawMessage{json.RawMessage(calltest.GetTool)}})
	u := &still{snapshot: s, peer: fixed(calltest.Text(strings.Repeat("some words. ", 80)))}
	const params = `{"name":"tool_execute","arguments":{"tool_id":"db:get@1","args":{"n":1}}}`
	off := server(b, u, Options{})(params)
	b.Run("hit", func(b *testing.B) {
		perCall(b, server(b, u, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})(params), off)
	})
	b.Run("miss", func(b *testing.B) {
		// What was kept is over its time at once.
		perCall(b, server(b, u, Options{Cache: dispatch.CacheOptions{ReadOnly: true, TTL: 1}})(params), off)
	})
}

// BenchmarkBrowseCacheStable measures tool_browse with cache_stable against
// plain, over 5,000 tools. The target is at most 1.2.
func BenchmarkBrowseCacheStable(b *testing.B) {
	u := &still{snapshot: manyTools(5000)}
	for name, arguments := range map[string]string{"query": `{"query":"create a pull request"}`, "path": `{"path":"/server7"}`} {
		b.Run(name, func(b *testing.B) {
			params := `{"name":"tool_browse","arguments":` + arguments + `}`
			perCall(b, server(b, u, Options{CacheStable: true})(params), server(b, u, Options{})(params))
		})
	}
}
