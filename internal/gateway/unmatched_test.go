package gateway

import (
	"strings"
	"testing"
)

// What controls name and nobody has is told; what matches, and what is about
// everything, is not.
func TestUnmatched(t *testing.T) {
	h := newHarness(t, Options{})
	yes := true
	read := h.id(t, "files", "read_file")
	policy := &Policy{Rules: []PolicyRule{
		{Action: Deny, Tool: "files:*"}, {Action: Deny, Tool: "drop"}, {Action: Deny, Namespace: "web"}, {Action: Deny, ReadOnly: &yes}, {Action: Deny},
		{Action: Deny, MetaTool: ToolView}, {Action: Deny, MetaTool: ToolHydrate, Tool: "search"},
		{Action: Deny, Tool: "file:*"}, {Action: Deny, Namespace: "files", Tool: "search"}, {Action: Deny, Tags: []string{"red"}}, {Action: Deny, MetaTool: ResourceRead, Tool: "drop"},
	}}
	got := Unmatched(h.Snapshot().Catalog, policy, RateLimits{
		MetaTools: map[string]RateLimit{ToolView: {PerMinute: 1}}, Tools: map[string]RateLimit{read: {PerMinute: 1}, "files:read_file#00000000": {PerMinute: 1}},
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
	if got := Unmatched(h.Snapshot().Catalog, nil, RateLimits{}, nil); got != nil {
		t.Errorf("without controls: %q", got)
	}
}
