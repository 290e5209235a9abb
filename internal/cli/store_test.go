package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-mcp/weir/internal/fakemcp"
)

// restarted is a gateway with store: file:state that is killed and started again at one address.
type restarted struct {
	*server
	path, listen string
}

// startKept starts a gateway whose configuration has store: file:state.
func startKept(t *testing.T, config string) *restarted {
	t.Helper()
	r := &restarted{path: writeConfig(t, "weir.yaml", config+"\nstore: file:state\n"), listen: "127.0.0.1:0"}
	r.again(t)
	r.listen = strings.TrimPrefix(r.base, "http://")
	return r
}

func (r *restarted) again(t *testing.T) {
	t.Helper()
	r.server = start(t, r.path, "serve", "--config", r.path, "--listen", r.listen)
}

// kill ends the gateway without any chance to write, and starts it again.
func (r *restarted) kill(t *testing.T) {
	t.Helper()
	r.end(syscall.SIGKILL)
	r.again(t)
}

// A plainClient is a client of the legacy era with one session.
type plainClient struct{ at, session string }

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`

// newPlainClient makes the handshake of a session.
func newPlainClient(t *testing.T, at string) *plainClient {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c := &plainClient{at, resp.Header.Get("Mcp-Session-Id")}
	if resp.StatusCode != http.StatusOK || c.session == "" {
		t.Fatalf("initialize: %d with session %q", resp.StatusCode, c.session)
	}
	return c
}

// ask makes a request in the session.
func (c *plainClient) ask(t *testing.T, method, params string) (int, string) {
	t.Helper()
	return c.send(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
}

func (c *plainClient) send(t *testing.T, method, body string) (int, string) {
	t.Helper()
	return exchange(t, method, c.at, body, "Content-Type", "application/json", "Accept", "application/json, text/event-stream",
		"Mcp-Session-Id", c.session, "Mcp-Protocol-Version", "2025-06-18")
}

// TestKilledSessions: sessions at each endpoint go on after kill -9, and those that were ended before
// it stay ended.
func TestKilledSessions(t *testing.T) {
	t.Parallel()
	far, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	web := httptest.NewServer(far)
	defer web.Close()
	r := startKept(t, "mcpServers: {fake: {command: %FAKE%}, far: {url: '"+web.URL+"/mcp'}}\nprofiles: {some: {include: ['fake:*']}}")
	var kept, ended []*plainClient
	for _, path := range []string{"/mcp", "/mcp/some", "/mcps/fake/mcp", "/mcps/far/mcp"} {
		kept = append(kept, newPlainClient(t, r.base+path))
		e := newPlainClient(t, r.base+path)
		if status, body := e.send(t, http.MethodDelete, ""); status != http.StatusNoContent {
			t.Errorf("DELETE at %s: %d %s", path, status, body)
		}
		ended = append(ended, e)
	}
	for range 3 {
		r.kill(t)
		for _, c := range kept {
			if status, body := c.ask(t, "tools/list", "{}"); status != http.StatusOK || !strings.Contains(body, `"tools"`) {
				t.Errorf("%s after a kill: %d %s", c.at, status, body)
			}
		}
		for _, c := range ended {
			if status, body := c.ask(t, "tools/list", "{}"); status != http.StatusNotFound {
				t.Errorf("%s, which was ended: %d %s", c.at, status, body)
			}
		}
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, "key": 0o600, "nats": 0o700} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(r.path), "state", name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("state/%s: %v, %v", name, info, err)
		}
	}
	second := writeConfig(t, "weir.yaml", "store: file:"+filepath.Join(filepath.Dir(r.path), "state"))
	weir(t, "serve", "--config", second, "--listen", "127.0.0.1:0").want(t, exitUsage, "another weir uses ")
	r.end(syscall.SIGTERM)
	if err := os.RemoveAll(filepath.Join(filepath.Dir(r.path), "state", "nats")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first start makes no documents for the second one
		weir(t, "serve", "--config", r.path, "--listen", "127.0.0.1:0").want(t, exitUsage, "has a key and no documents")
	}
}

// TestKilledTasks: the handle of a task works after kill -9.
func TestKilledTasks(t *testing.T) {
	t.Parallel()
	a := startAgent(t, taskAgent, nil)
	r := startKept(t, fmt.Sprintf("tasks: {wait: 100ms}\nmcpServers: {stock: {url: %q, agent: true}}\n", a.base+"/mcp"))
	id := r.tool("stock:later")
	c := newPlainClient(t, r.url)
	_, body := c.ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{}}}`)
	handle := regexp.MustCompile(`task_[a-z0-9]+`).FindString(body)
	if handle == "" {
		t.Fatalf("no handle in %s", body)
	}
	r.kill(t)
	r.tool("stock:later")
	until(t, "counted", func() string {
		_, body := c.ask(t, "tools/call", `{"name":"tool_view","arguments":{"handle":"`+handle+`"}}`)
		if strings.Contains(body, "counted") {
			return "counted"
		}
		return body
	})
}
