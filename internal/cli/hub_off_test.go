package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHubIsOff: a gateway whose configuration does not ask for a hub has none, no
// local process can put tools in front of its agents, and what looks for a hub
// learns how to switch it on.
func TestHubIsOff(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\n")
	for _, path := range []string{"/socket.io/?EIO=4&transport=polling", "/smcp/?EIO=4&transport=polling"} {
		if code, body := get(t, s.base+path); code != http.StatusNotFound || !strings.Contains(body, "hub: {}") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{"evil":{"command":"`+fakeBin+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startComputer(t, dir, "", "--hub", s.base, "--name", "evil", "--config", config)
	awaitText(t, p.out.String, "hub: {}")
	if h := s.health(); h.Hub != nil || len(h.Upstreams) != 0 {
		t.Errorf("%+v", h)
	}
	if log := s.stderr.String(); strings.Contains(log, "office") {
		t.Errorf("the log speaks of offices: %s", log)
	}
}
