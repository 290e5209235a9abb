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
)

// TestKilledListings: after kill -9 the catalog is there before its server has listed anything, calls
// reach the server, and weir ls --changes compares with what it listed first.
func TestKilledListings(t *testing.T) {
	t.Parallel()
	var about atomic.Value
	about.Store("Counts sheep")
	var slow atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.Method == "tools/list" && slow.Load() {
			time.Sleep(3 * time.Second)
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
	t.Cleanup(web.Close)
	r := startKept(t, "mcpServers: {s: {url: '"+web.URL+"/mcp'}}\n")
	id := r.tool("s:count")
	c := newPlainClient(t, r.url)
	time.Sleep(500 * time.Millisecond) // listings are written in the background
	slow.Store(true)
	about.Store("Counts wolves")
	r.kill(t)
	began := time.Now()
	if _, body := c.ask(t, "tools/call", `{"name":"tool_browse","arguments":{"query":"count"}}`); !strings.Contains(body, "sheep") {
		t.Errorf("browse after a kill: %s", body)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("browse took %v", took)
	}
	if _, body := c.ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{}}}`); !strings.Contains(body, "forty") {
		t.Errorf("call after a kill: %s", body)
	}
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
	time.Sleep(500 * time.Millisecond)
	r.kill(t)
	if text := changes("--since", "1h"); !strings.Contains(text, `changed tool "count"`) {
		t.Errorf("since an hour ago, after another kill: %s", text)
	}
	if text := changes(); !strings.Contains(text, "Counts sheep") || !strings.Contains(text, "Counts wolves") {
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
	began = time.Now()
	r.again(t)
	_, body := c.ask(t, "tools/call", `{"name":"tool_browse","arguments":{"query":"count"}}`)
	if took := time.Since(began); took < 2500*time.Millisecond || !strings.Contains(body, "wolves") {
		t.Errorf("with another configuration, after %v: %s", took, body)
	}
}
