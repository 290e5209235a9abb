package cli

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestMemoryOfComputers: the bound of TestMemoryOfReferences holds for servers of a Computer as well, and a request as
// large as the gateway takes has room. Each has a gateway of its own.
func TestMemoryOfComputers(t *testing.T) {
	text := func(mb int) string {
		return fmt.Sprintf(`,"args":{"text":%q}`, strings.Repeat("a long text of words ", mb<<20/21))
	}
	for _, c := range []struct{ name, tool, args, want string }{
		{"a request of 7 MB", "take", text(7), "done"},
		{"an answer of 5 MB", "image", `,"args":{}`, "art_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoadOf(t, fmt.Sprintf("{max_bytes: 1GB}\nhub: {tokens: [{name: desk, sha256: %x, role: computer, offices: [weir]}]}", sha256.Sum256([]byte("token-of-the-desk"))))
			dir := t.TempDir()
			config := filepath.Join(dir, "mcp.json")
			if err := os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers":{"files":{"url":%q,"default_tool_meta":{"auto_apply":true}}}}`, l.up.URL+"/mcp"), 0o600); err != nil {
				t.Fatal(err)
			}
			startComputer(t, dir, "WEIR_HUB_TOKEN=token-of-the-desk", "--hub", l.base, "--name", "desk", "--config", config)
			l.await("the Computer's server is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-files"].Tools > 0 })
			next := l.run("desk-files:"+c.tool, c.args)
			if answer := l.do(l.run("desk-files:take", text(9))()); !strings.Contains(answer, "done") {
				t.Errorf("a request of 9 MB: %.600s", answer)
			}
			time.Sleep(500 * time.Millisecond)
			l.idle = min(l.idle+8<<20, l.resident()) // with the Computer's tools
			for _, atOnce := range []int{1, 16} {
				l.drive(sent{c.name, next}, atOnce)
				if answer := l.do(next()); !strings.Contains(answer, c.want) {
					t.Errorf("after %d: %.600s", atOnce, answer)
				}
			}
		})
	}
}
