package metatool

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// BenchmarkOwnLists measures callers with 1,000 tools of their own in addition to 10,000 that all
// share. The lists of two callers differ in one tool. It reports what the first tools/list and the
// first search of a further caller take and keep, and how much longer a later search takes than the
// same search of a gateway without own lists, over as many tools.
func BenchmarkOwnLists(b *testing.B) {
	tools := func(n int, about string) (list []json.RawMessage) {
		for i := range n {
			list = append(list, json.RawMessage(fmt.Sprintf(`{"name":"%s_%d","description":"Creates the %s report %d of the team and mails it to its owner.","inputSchema":{"type":"object","properties":{"owner":{"type":"string","description":"The owner of report %d."},"limit":{"type":"integer"}}}}`, about, i, about, i, i)))
		}
		return list
	}
	h, common := newOwnHarness(b, Options{}), newHarness(b, Options{})
	for i := range 100 {
		l := primitive.Listing{Upstream: fmt.Sprint("s", i), Namespace: fmt.Sprint("s", i), Tools: tools(100, fmt.Sprint("common", i))}
		h.List(l)
		common.List(l)
	}
	own := tools(1000, "own")
	common.List(primitive.Listing{Upstream: "notes", Namespace: "notes", Tools: own})
	h.Snapshot().Prepare()
	common.Snapshot().Prepare()
	caller := func(i int) *identity.Identity {
		id := &identity.Identity{Principal: fmt.Sprint("p", i)}
		l := &primitive.Listing{Upstream: "notes", Namespace: "notes", Tools: append([]json.RawMessage{json.RawMessage(fmt.Sprintf(`{"name":"mine%d","inputSchema":{"type":"object"}}`, i))}, own...)}
		h.book.set(id.Principal, l)
		h.sessions[id.Principal] = mcp.NewSession(id.Principal, id.Principal)
		b.Cleanup(h.sessions[id.Principal].Close)
		return id
	}
	const query = `{"name":"tool_browse","arguments":{"query":"mail the report of the owner"}}`
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what pools hold goes with the second one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	h.as(b.Context(), caller(0), mcp.V20251125, "tools/call", query)
	const callers = 16
	var list, search time.Duration
	before := heap()
	ids := make([]*identity.Identity, callers)
	for i := range ids {
		ids[i] = caller(i + 1)
		began := time.Now()
		h.g.View(identity.With(b.Context(), ids[i]))
		h.as(b.Context(), ids[i], mcp.V20251125, "tools/list", `{}`)
		list += time.Since(began)
	}
	listed := heap()
	for _, id := range ids {
		began := time.Now()
		h.as(b.Context(), id, mcp.V20251125, "tools/call", query)
		search += time.Since(began)
	}
	searched := heap()
	const rounds = 100
	var began time.Time
	for i := range rounds + 1 {
		if i == 1 {
			began = time.Now()
		}
		if _, err := common.Ask(b, "tools/call", query); err != nil {
			b.Fatal(err)
		}
	}
	baseline := time.Since(began) / rounds
	for b.Loop() {
		h.as(b.Context(), ids[0], mcp.V20251125, "tools/call", query)
	}
	b.ReportMetric(float64(list.Microseconds())/1000/callers, "list_ms")
	b.ReportMetric(float64(search.Microseconds())/1000/callers, "search_ms")
	b.ReportMetric(float64(listed-before)/callers/(1<<10), "list_KB")
	b.ReportMetric(float64(searched-listed)/callers/(1<<10), "search_KB")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(baseline), "x_baseline")
}
