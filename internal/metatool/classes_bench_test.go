package metatool

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// BenchmarkHide measures the first list of a class of callers over 10,000 tools under 50 rules, 5 of
// them with an expression, in milliseconds; and a later list, against one of a policy that hides
// nothing.
func BenchmarkHide(b *testing.B) {
	p := &dispatch.Policy{Default: dispatch.Deny}
	for i := range 50 {
		rule := dispatch.PolicyRule{Action: dispatch.Allow, Namespace: fmt.Sprintf("s%d", i), If: &authz.Condition{Groups: []string{"sre", fmt.Sprintf("g%d", i)}}}
		if i%10 == 0 {
			rule = dispatch.PolicyRule{Action: dispatch.Deny, If: calltest.When(b, fmt.Sprintf(`tool.destructive && args.repo == "r%d"`, i))}
		}
		p.Rules = append(p.Rules, rule)
	}
	serve := func(hide bool) *harness {
		of := *p
		of.Hide = hide
		h := newHarness(b, Options{Policy: &of, Mode: ModePlain})
		for s := range 50 {
			l := primitive.Listing{Upstream: fmt.Sprintf("s%d", s), Namespace: fmt.Sprintf("s%d", s)}
			for i := range 200 {
				l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"name":"do_thing_%d","description":"Does thing number %d of server %d.","inputSchema":{"type":"object","properties":{"repo":{"type":"string"}}},"annotations":{"destructiveHint":%t}}`, i, i, s, i%3 == 0)))
			}
			h.List(l)
		}
		h.Listed.Prepare()
		return h
	}
	hiding, open := serve(true), serve(false)
	list := func(h *harness, id *identity.Identity) time.Duration {
		start := time.Now()
		r := &mcp.Request{ID: "1", Method: "tools/list", Params: json.RawMessage(`{}`), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer}
		if _, err := h.g.Serve(identity.With(b.Context(), id), r); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	sre := &identity.Identity{Principal: "corp:u1", Issuer: "corp", Groups: []string{"sre"}}
	firstOpen := list(open, sre)
	list(hiding, &identity.Identity{Principal: "x"}) // the names of all tools are given
	var first, later, laterOpen time.Duration
	const rounds = 200
	n := 0
	for b.Loop() {
		n++
		hiding.g.classes = newClasses(hiding.g)
		first += list(hiding, sre)
		for range rounds {
			later += list(hiding, sre)
			laterOpen += list(open, sre)
		}
	}
	b.ReportMetric(float64(first.Microseconds())/1000/float64(n), "first-ms")
	b.ReportMetric(float64(firstOpen.Microseconds())/1000, "first-open-ms")
	b.ReportMetric(float64(later.Nanoseconds())/float64(n*rounds), "later-ns")
	b.ReportMetric(float64(later)/float64(laterOpen), "later/open")
}
