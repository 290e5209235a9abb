package metatool

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
)

// What controls name and nobody has is told; what matches, and what is about
// everything, is not.
func TestUnmatched(t *testing.T) {
	h := newHarness(t, Options{})
	yes := true
	read := h.ID(t, "files", "read_file")
	policy := &dispatch.Policy{Rules: []dispatch.PolicyRule{
		{Action: dispatch.Deny, Tool: "files:*"}, {Action: dispatch.Deny, Tool: "drop"}, {Action: dispatch.Deny, Namespace: "web"}, {Action: dispatch.Deny, ReadOnly: &yes}, {Action: dispatch.Deny},
		{Action: dispatch.Deny, MetaTool: ToolView}, {Action: dispatch.Deny, MetaTool: ToolHydrate, Tool: "search"},
		{Action: dispatch.Deny, Tool: "file:*"}, {Action: dispatch.Deny, Namespace: "files", Tool: "search"}, {Action: dispatch.Deny, Tags: []string{"red"}}, {Action: dispatch.Deny, MetaTool: ResourceRead, Tool: "drop"},
	}}
	got := Unmatched(h.Snapshot().Catalog, policy, dispatch.RateLimits{
		MetaTools: map[string]dispatch.RateLimit{ToolView: {PerMinute: 1}}, Tools: map[string]dispatch.RateLimit{read: {PerMinute: 1}, "files:read_file#00000000": {PerMinute: 1}},
	}, []string{read, "web:serch#00000000"})
	want := []string{
		`policy.rules[7] (tool: "file:*") matches nothing`, `policy.rules[8] (namespace: "files", tool: "search")`, `policy.rules[9] (tags: "red")`,
		`policy.rules[10] (meta_tool: "resource_read", tool: "drop")`, `rate_limits.per_tool: there is no "files:read_file#00000000"; close to it: ` + read, `cache.allow: there is no "web:serch#00000000"; close to it: web:search#`,
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, text := range want {
		if !strings.HasPrefix(got[i], text) {
			t.Errorf("%q, want %q", got[i], text)
		}
	}
	if got := Unmatched(h.Snapshot().Catalog, nil, dispatch.RateLimits{}, nil); got != nil {
		t.Errorf("without controls: %q", got)
	}
}
