package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// TestKilledListings: after kill -9 the catalog is there before its server has listed anything, calls
// reach the server, and weir ls --changes compares with what it listed first.
func TestKilledListings(t *testing.T) {
	t.Parallel()
	var about atomic.Value
	about.Store("Counts sheep")
	gate := make(chan struct{}) // closed: the server lists at once
	close(gate)
	var slow atomic.Value
	slow.Store(gate)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.Method == "tools/list" {
			select {
			case <-slow.Load().(chan struct{}):
			case <-r.Context().Done():
				return
			}
		}
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/list": fmt.Sprintf(`{"tools":[{"name":"count","description":%q,"inputSchema":{"type":"object"}}]}`, about.Load()),
			"tools/call": `{"content":[{"type":"text","text":"forty"}]}`,
		}[m.Method]
		if m.ID == nil || result == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	r := startKept(t, "mcpServers: {s: {url: '"+web.URL+"/mcp'}}\n")
	id := r.tool("s:count")
	c := newPlainClient(t, r.url)
	r.keeps(t, "l."+store.Hash("s"), "f."+store.Hash("s"))
	gate = make(chan struct{})
	slow.Store(gate)
	about.Store("Counts wolves")
	r.kill(t)
	if _, body := c.ask(t, "tools/call", `{"name":"tool_browse","arguments":{"query":"count"}}`); !strings.Contains(body, "sheep") {
		t.Errorf("browse after a kill: %s", body)
	}
	if _, body := c.ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{}}}`); !strings.Contains(body, "forty") {
		t.Errorf("call after a kill: %s", body)
	}
	close(gate)
	state := "XDG_STATE_HOME=" + t.TempDir()
	changes := func(args ...string) string {
		t.Helper()
		return weir(t, append([]string{state, "ls", "--changes", "--url", r.url}, args...)...).stdout
	}
	until(t, "wolves", func() string {
		if text := changes(); strings.Contains(text, "- description: \"Counts sheep\"") && strings.Contains(text, "wolves") {
			return "wolves"
		} else {
			return text
		}
	})
	if text := changes("--since", "1h"); !strings.Contains(text, `changed tool "count"`) {
		t.Errorf("since an hour ago: %s", text)
	}
	if text := changes("--since", "last"); !strings.Contains(text, "Nothing has changed since") {
		t.Errorf("since the last look: %s", text)
	}
	r.keeps(t, "fc.recent")
	r.kill(t)
	if text := changes("--since", "1h"); !strings.Contains(text, `changed tool "count"`) {
		t.Errorf("since an hour ago, after another kill: %s", text)
	}
	until(t, "Counts wolves", func() string { return changes() })
	if text := changes(); !strings.Contains(text, "Counts sheep") {
		t.Errorf("since the first listing, after another kill: %s", text)
	}
	weir(t, "ls", "--since", "soon", "--url", r.url).want(t, exitUsage, "it must be a time such as")

	// A server with another configuration is listed anew.
	r.end(syscall.SIGKILL)
	config, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path, []byte(strings.Replace(string(config), "url:", "exclude_tools: [none], url:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	gate = make(chan struct{})
	slow.Store(gate)
	var open atomic.Bool
	time.AfterFunc(3*time.Second, func() { open.Store(true); close(gate) })
	r.again(t)
	_, body := c.ask(t, "tools/call", `{"name":"tool_browse","arguments":{"query":"count"}}`)
	if !open.Load() || !strings.Contains(body, "wolves") {
		t.Errorf("with another configuration, before a listing: %v, %s", !open.Load(), body)
	}
}
