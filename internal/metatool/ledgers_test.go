package metatool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// TestQuotasOfAPrincipal: a client of the modern era has one quota and one count of calls at /mcp, at
// profiles and at /mcps/NAME/mcp, whose transports have a session each for its principal.
func TestQuotasOfAPrincipal(t *testing.T) {
	for name, options := range map[string]Options{
		"a quota":     {RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{}}},
		"a condition": {Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, If: calltest.When(t, `session.calls >= 3`)}}}},
	} {
		options.Profiles = []Profile{{Name: "docs"}}
		h := newHarness(t, options)
		tool := h.ID(t, "files", "drop")
		if options.RateLimits.Tools != nil {
			h.g.opts.RateLimits.Tools[tool] = dispatch.RateLimit{PerSession: 3}
		}
		var open []*mcp.Session
		session := func(principal string) *mcp.Session {
			s := mcp.NewSession("", principal)
			open = append(open, s)
			return s
		}
		call := func(s *mcp.Session, profile, version string) (refused bool) {
			t.Helper()
			raw, err := h.g.Serve(identity.WithRoute(t.Context(), identity.Route{Profile: profile}), &mcp.Request{ID: "1", Method: "tools/call", Version: version, Session: s, Peer: mcp.NoPeer,
				Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + tool + `","args":{}}}`)})
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(raw), `"isError":true`)
		}
		direct := func(s *mcp.Session, version string) (refused bool) {
			_, err := h.g.direct.Judge(t.Context(), []Place{{Upstream: "files", Namespace: "files"}},
				&mcp.Request{ID: "1", Method: "tools/call", Version: version, Session: s, Peer: mcp.NoPeer, Params: json.RawMessage(`{"name":"drop","arguments":{}}`)}, "")
			return err != nil
		}
		const modern, legacy = mcp.V20260728, mcp.V20251125
		all, docs, router := session("ann"), session("ann"), session("ann")
		if call(all, "", modern) || call(docs, "docs", modern) || direct(router, modern) {
			t.Errorf("%s: one of the first calls is refused", name)
		}
		if !call(all, "", modern) || !call(docs, "docs", modern) || !direct(router, modern) {
			t.Errorf("%s: another URL has a count of its own", name)
		}
		if call(session("bob"), "", modern) || call(session("ann"), "", legacy) || direct(session("ann"), legacy) {
			t.Errorf("%s: another principal or a session has no count of its own", name)
		}
		docs.Close()
		if !call(session("ann"), "docs", modern) {
			t.Errorf("%s: a session that has ended takes the count along", name)
		}
		for _, s := range open {
			s.Close()
		}
		h.g.state.ledgers.mu.Lock()
		if n := len(h.g.state.ledgers.of); n != 0 {
			t.Errorf("%s: %d ledgers are kept without a session", name, n)
		}
		h.g.state.ledgers.mu.Unlock()
	}
}
