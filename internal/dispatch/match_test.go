package dispatch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func TestPolicyDecides(t *testing.T) {
	yes, no := true, false
	known := sampleCatalog(t, primitive.Listing{Upstream: "bank", Namespace: "bank", Tools: []json.RawMessage{json.RawMessage(`{"name":"delete_all","description":"d","_meta":{"version":"1","tags":["money","admin"]},"annotations":{"destructiveHint":true}}`)}})
	for _, tt := range []struct {
		name   string
		policy *Policy
		want   map[string]Action // by upstream/tool
	}{
		{"none", nil, map[string]Action{"files/read_file": Allow}},
		{"empty", &Policy{}, map[string]Action{"files/read_file": Allow}},
		{"default", &Policy{Default: Deny}, map[string]Action{"files/read_file": Deny}},
		{"the first that matches", &Policy{Rules: []PolicyRule{{Action: Allow, Namespace: "files"}, {Action: Deny}}}, map[string]Action{"files/drop": Allow, "web/search": Deny}},
		{"namespace is exact", &Policy{Rules: []PolicyRule{{Action: Deny, Namespace: "file"}}}, map[string]Action{"files/drop": Allow}},
		{"tool by raw name", &Policy{Rules: []PolicyRule{{Action: Deny, Tool: "read_*"}}}, map[string]Action{"files/read_file": Deny, "files/drop": Allow}},
		{"tool by id", &Policy{Rules: []PolicyRule{{Action: Deny, Tool: "files:*"}}}, map[string]Action{"files/read_file": Deny, "web/search": Allow}},
		{"tool with ?", &Policy{Rules: []PolicyRule{{Action: Deny, Tool: "dro?"}}}, map[string]Action{"files/drop": Deny, "files/read_file": Allow}},
		{"case counts", &Policy{Rules: []PolicyRule{{Action: Deny, Tool: "DROP"}}}, map[string]Action{"files/drop": Allow}},
		{"read-only", &Policy{Rules: []PolicyRule{{Action: Deny, ReadOnly: &no}}}, map[string]Action{"files/read_file": Allow, "files/drop": Deny}},
		{"not read-only", &Policy{Rules: []PolicyRule{{Action: Deny, ReadOnly: &yes}}}, map[string]Action{"files/read_file": Deny, "files/drop": Allow}},
		{"all tags", &Policy{Rules: []PolicyRule{{Action: RequireApproval, Tags: []string{"money", "admin"}}}}, map[string]Action{"bank/delete_all": RequireApproval}},
		{"one tag is missing", &Policy{Rules: []PolicyRule{{Action: Deny, Tags: []string{"money", "public"}}}}, map[string]Action{"bank/delete_all": Allow}},
		{"a safety tag", &Policy{Rules: []PolicyRule{{Action: Deny, Tags: []string{"destructive"}}}}, map[string]Action{"bank/delete_all": Deny, "files/read_file": Allow}},
		{"everything must match", &Policy{Rules: []PolicyRule{{Action: Deny, Namespace: "files", Tool: "search"}}}, map[string]Action{"files/drop": Allow, "web/search": Allow}},
		{"another meta-tool", &Policy{Rules: []PolicyRule{{Action: Deny, MetaTool: "tool_view"}}}, map[string]Action{"files/drop": Allow}},
		{"this meta-tool", &Policy{Rules: []PolicyRule{{Action: Deny, MetaTool: VerbExecute}}}, map[string]Action{"files/drop": Deny}},
	} {
		for tool, want := range tt.want {
			upstream, name, _ := strings.Cut(tool, "/")
			e := entryNamed(t, known, upstream, name)
			if got := tt.policy.decide(nil, strictly, VerbExecute, Subject{Entry: e}).action; got != want {
				t.Errorf("%s: %s: %s, want %s", tt.name, tool, got, want)
			}
		}
	}
}

func TestMatchPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a:b/c", true}, {"a*c", "abc", true}, {"a*c", "abd", false}, {"*b*", "abc", true},
		{"?", "é", true}, {"??", "é", false}, {"[a]", "a", false}, {"a**b", "ab", true}, {"*a*b*c*", strings.Repeat("ab", 500), false},
	} {
		if got := matchPattern(tt.pattern, tt.s); got != tt.want {
			t.Errorf("%q, %.20q: %v", tt.pattern, tt.s, got)
		}
	}
}
