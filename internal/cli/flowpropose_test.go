package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestFlowPropose: the printed section is one that weir reads, and nothing is written.
func TestFlowPropose(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", strings.ReplaceAll("mcpServers:\n  notes: {command: %WEIR%, args: [demo, notes]}\n", "%WEIR%", weirBin))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := weir(t, "flow", "propose", "--config", path).want(t, exitOK, "read each rule", `{tool: "notes:delete_note", kind: effect, sensitive: ["id"]} # its name says delete`)
	c, _, err := config.Parse("weir.yaml", []byte(out.stdout), config.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.stdout)
	}
	if len(c.Flow.Label) != 0 {
		t.Errorf("a tool that reads texts is trusted:\n%s", out.stdout)
	}
	found := decode[proposedFlow](t, weir(t, "flow", "propose", "--config", path, "--json").want(t, exitOK).stdout)
	if len(found.Flow.Sinks) != len(c.Flow.Sinks) || len(c.Flow.Sinks) < 2 || len(found.Reasons) != len(c.Flow.Label)+len(c.Flow.Sinks)+len(c.Flow.Declassify) {
		t.Errorf("the JSON has other rules than the text: %+v\n%s", found, out.stdout)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the configuration was changed (%v):\n%s", err, after)
	}
}
