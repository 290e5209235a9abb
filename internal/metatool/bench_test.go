package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// still is a snapshot with one peer for everything.
type still struct {
	snapshot *Snapshot
	peer     mcp.Peer
}

func (s *still) Peer(context.Context, string) (mcp.Peer, error) { return s.peer, nil }
func (s *still) Snapshot() *Snapshot                            { return s.snapshot }

// fixed answers every call with the same result.
type fixed json.RawMessage

func (f fixed) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(f), nil
}
func (fixed) Notify(context.Context, string, json.RawMessage) error { return nil }

// manyTools lists n tools of n/50 servers, with words as real ones have.
func manyTools(n int) *Snapshot {
	verbs := []string{"list", "get", "create", "update", "delete", "search", "export", "import", "merge", "watch"}
	nouns := []string{"issue", "file", "invoice", "customer", "deployment", "calendar event", "message", "pull request", "metric", "image", "ticket", "order", "branch", "contact", "report"}
	s := NewSnapshot(catalog.Limits{})
	for server := 0; server*50 < n; server++ {
		l := primitive.Listing{Upstream: fmt.Sprintf("server%d", server), Namespace: fmt.Sprintf("server%d", server)}
		for i := range min(50, n-server*50) {
			verb, noun := verbs[i%len(verbs)], nouns[(i+server)%len(nouns)]
			l.Tools = append(l.Tools, fmt.Appendf(nil, `{"name":"%s_%s_%d","description":"%s one or more %ss of project %d and return what changed.","inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"which %s"},"project":{"type":"string"}}}}`,
				verb, strings.ReplaceAll(noun, " ", "_"), i, verb, noun, server, noun))
		}
		s, _ = s.With(l)
	}
	s.Index.Prepare()
	return s
}

func benchGateway(b *testing.B, tools int, result string) (*Gateway, *still) {
	store := artifact.NewMemory(artifact.Options{})
	b.Cleanup(func() { store.Close() })
	u := &still{snapshot: manyTools(tools), peer: fixed(result)}
	return New(Options{Upstreams: u, Artifacts: store}), u
}

// BenchmarkExecute measures tool_execute over a peer in memory, validation and
// firewall on. x_baseline is its time as a multiple of what a gateway pays that
// only decodes the request's params and the result and encodes them again.
func BenchmarkExecute(b *testing.B) {
	session := mcp.NewSession("s", "ann")
	for _, size := range []int{100, 1900, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			g, u := benchGateway(b, 500, calltest.Text(strings.Repeat("some words. ", size/12)))
			id := u.snapshot.Catalog.Entries()[7].ID
			r := &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
				Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"id":"12345","project":"the quick brown fox jumps over the lazy dog"}}}`)}
			start := time.Now()
			const rounds = 300
			for range rounds {
				for _, raw := range []json.RawMessage{r.Params, json.RawMessage(u.peer.(fixed))} {
					var v any
					if err := json.Unmarshal(raw, &v); err != nil {
						b.Fatal(err)
					}
					if _, err := json.Marshal(v); err != nil {
						b.Fatal(err)
					}
				}
			}
			baseline := time.Since(start) / rounds
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Serve(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(max(baseline, 1)), "x_baseline")
		})
	}
}

// BenchmarkProgram measures a call of a program over a peer in memory. adds-us is the median of what a call takes more
// than the same by tool_execute. A program that makes one call is a run, in a worker that is warm.
func BenchmarkProgram(b *testing.B) {
	h := newRunHarness(b, Options{})
	var at []time.Time // of each call at the server
	h.Add("x", calltest.Peer(func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		at = append(at, time.Now())
		return json.RawMessage(calltest.Text(`{"number":7,"title":"A title of an issue","labels":["bug","urgent"]}`)), nil
	}), `{"name":"t","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	between := func(n int) time.Duration {
		took := make([]time.Duration, 0, n)
		for i := range at[1:] {
			took = append(took, at[i+1].Sub(at[i]))
		}
		at = at[:0]
		slices.Sort(took)
		return took[len(took)/2]
	}
	direct := `{"tool_id":"` + h.ID(b, "x", "t") + `","args":{"owner":"a","number":7}}`
	for range 2000 {
		h.Tool(b, ToolExecute, direct)
	}
	single := between(2000)
	h.runner.Limits.Calls = b.N + 2
	b.ResetTimer()
	if a := h.program(b, fmt.Sprintf(`for (let i = 0; i < %d; i++) await tools.x.t({owner: "a", number: i})`, b.N+2)); a.IsError {
		b.Fatalf("%+v", a)
	}
	inner := between(b.N)
	b.ReportMetric(float64((inner-single).Nanoseconds())/1000, "adds-us")
	b.ReportMetric(float64(inner)/float64(single), "x_single")
}

// logs answers every call with another text of 100 KB.
type logs struct {
	text []byte
	n    int
}

func (l *logs) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	l.n++
	out := fmt.Appendf(make([]byte, 0, len(l.text)+100), `{"content":[{"type":"text","text":"%d `, l.n)
	return append(append(out, l.text...), `"}],"isError":false}`...), nil
}
func (*logs) Notify(context.Context, string, json.RawMessage) error { return nil }

// BenchmarkHeldBack measures tool_execute where each result is another one, and is kept.
func BenchmarkHeldBack(b *testing.B) {
	session := mcp.NewSession("s", "ann")
	g, u := benchGateway(b, 500, "")
	u.peer = &logs{text: []byte(strings.Repeat("some words. ", 100_000/12))}
	r := &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
		Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + u.snapshot.Catalog.Entries()[7].ID + `","args":{}}}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Serve(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBrowse measures tool_browse by query over 10,000 tools. The targets
// are p50 ≤ 1 ms and p99 ≤ 5 ms.
func BenchmarkBrowse(b *testing.B) {
	g, _ := benchGateway(b, 10_000, calltest.Text("x"))
	session := mcp.NewSession("s", "ann")
	queries := []string{"list issues", "create a pull request", "delete customer", "export metrics as a report", "watch deployments",
		"I need to find out which invoices of a customer changed in project 12 and send them a message about it, then update the calendar event"}
	var requests []*mcp.Request
	for _, q := range queries {
		requests = append(requests, &mcp.Request{ID: "1", Method: "tools/call", Session: session, Peer: mcp.NoPeer,
			Params: json.RawMessage(fmt.Sprintf(`{"name":"tool_browse","arguments":{"query":%q}}`, q))})
	}
	var took []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if _, err := g.Serve(b.Context(), requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50_ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99_ms")
}
