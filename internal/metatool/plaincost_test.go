package metatool

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
)

// typicalTool is a tool of the size that tools of public servers have: about 180 tokens, as the mean
// of the 40 tools of docs/context-cost.md.
func typicalTool(n int) string {
	verbs, nouns := []string{"create", "update", "list", "delete", "search"}, []string{"issue", "file", "comment", "branch", "release", "project", "label", "message", "page", "user"}
	verb, noun := verbs[n%len(verbs)], nouns[n/len(verbs)%len(nouns)]
	return strings.NewReplacer("VERB", verb, "NOUN", noun).Replace(`{"name":"VERB_NOUN","title":"VERB a NOUN",` +
		`"description":"VERB a NOUN in a repository. Returns the NOUN with its id, state and the time of its last change. Fails if the repository does not exist or the token may not write to it.",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"owner":{"type":"string","description":"Account that owns the repository"},` +
		`"repo":{"type":"string","description":"Name of the repository"},` +
		`"title":{"type":"string","description":"Title of the NOUN, at most 256 characters"},` +
		`"state":{"type":"string","enum":["open","closed","all"],"description":"Only those in this state"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":100,"description":"How many to return"}},` +
		`"required":["owner","repo"]},"annotations":{"readOnlyHint":false,"destructiveHint":false}}`)
}

// TestPlainAgainstGateway prints the table in docs/context-cost.md: what tools/list costs in both
// modes, and which of them auto takes.
func TestPlainAgainstGateway(t *testing.T) {
	for _, c := range []struct {
		tools int
		auto  Mode
	}{{1, ModePlain}, {5, ModePlain}, {10, ModePlain}, {20, ModeGateway}, {50, ModeGateway}} {
		cost := map[Mode]int{}
		for _, mode := range []Mode{ModePlain, ModeGateway, ModeAuto} {
			h := newHarness(t, Options{Mode: mode, Programs: &runs.Runner{}})
			var tools []string
			for n := range c.tools {
				tools = append(tools, typicalTool(n))
			}
			h.snapshotOf("github", tools...)
			out, err := h.Ask(t, "tools/list", "{}")
			if err != nil {
				t.Fatal(err)
			}
			cost[mode] = token.Count(string(out))
		}
		if cost[ModeAuto] != cost[c.auto] {
			t.Errorf("%d tools: auto costs %d tokens, %s %d", c.tools, cost[ModeAuto], c.auto, cost[c.auto])
		}
		t.Logf("| %d | %d | %d | %s |", c.tools, cost[ModePlain], cost[ModeGateway], c.auto)
	}
}

// snapshotOf makes the tools of one server all that there are.
func (h *harness) snapshotOf(server string, tools ...string) {
	h.Mu.Lock()
	h.Listed = h.Listed.Without("files").Without("web")
	h.Mu.Unlock()
	h.Add(server, calltest.Echo, tools...)
}
