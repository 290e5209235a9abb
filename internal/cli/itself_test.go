package cli

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestURLOfItself: an entry whose URL is weir's own is left out, also where only the
// request that comes back shows it and where weir asks for a token; that of another
// weir is not.
func TestURLOfItself(t *testing.T) {
	t.Parallel()
	other := serve(t, "mcpServers: {inner: {command: \"%FAKE%\"}}\n")
	for name, auth := range map[string]string{"open": "", "with a token": fmt.Sprintf("auth: {tokens: [{name: ann, sha256: %x}]}\n", sha256.Sum256([]byte("t0ken")))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			listen := fmt.Sprintf("127.0.0.1:%d", port)
			text := "listen: " + listen + "\n" + auth + "mcpServers:\n  known: {url: \"http://localhost:" + fmt.Sprint(port) + "/mcp\"}\n  other: {url: \"" + other.url + "\"}\n"
			path := writeConfig(t, "weir.yaml", text)
			s := startWith(t, nil, path, "serve", "--config", path)
			if auth != "" {
				s.token = "t0ken"
			}
			s.await("the other weir is a server", func(h gateway.Health) bool {
				return h.Upstreams["other"].Tools > 0 && h.Upstreams["known"].State == "left_out"
			})
			// By an address that the configuration does not tell, and as an event stream.
			text += "  found: {url: \"http://127.0.0.1:" + fmt.Sprint(port) + "/mcp?x=1\"}\n"
			text = strings.Replace(text, "listen: "+listen, "listen: 127.0.0.1:0", 1)
			text += "  stream: {type: sse, url: \"" + s.base + "/sse\"}\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			h := s.await("the others are left out", func(h gateway.Health) bool {
				for _, name := range []string{"known", "found", "stream"} {
					if h.Upstreams[name].State != "left_out" || h.Upstreams[name].Error != "" || !strings.Contains(h.Upstreams[name].Note, "mcpServers."+name+" is left out: its url") {
						return false
					}
				}
				return true
			})
			if h.Status != gateway.StatusOK || h.Upstreams["other"].Tools == 0 {
				t.Errorf("%+v", h)
			}
			if log := s.stderr.String(); strings.Contains(log, "cannot be started or reached") {
				t.Errorf("there is something to worry about: %s", log)
			}
		})
	}
}
