package dataplane

import (
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/tables"
)

// TestReach: rows of servers on this machine come with the call, unless the configuration leaves
// them at the server.
func TestReach(t *testing.T) {
	c, _, err := config.Parse("weir.yaml", []byte(`{"mcpServers": {
		"program": {"command": "x"},
		"loopback": {"url": "http://127.0.0.1:1/mcp"},
		"streams": {"command": "x", "tables": {"relay": true}},
		"loopback-streams": {"url": "http://localhost:1/mcp", "tables": {"relay": true}},
		"far": {"url": "https://mcp.example.com/mcp", "tables": {"relay": true}}
	}}`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Plane{config: func() *config.Config { return c }}
	for name, want := range map[string]tables.Reach{
		"program": tables.ReachKeep, "loopback": tables.ReachKeep,
		"streams": tables.ReachRelay, "loopback-streams": tables.ReachRelay, "far": tables.ReachDirect,
	} {
		if got := p.reach(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
