package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
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

// keeps waits until the store has texts: keys, or what documents say. It looks into a copy of the store's
// file, as a gateway would after a kill.
func (r *restarted) keeps(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		until(t, text, func() string {
			if keptText(t, filepath.Join(filepath.Dir(r.path), "state", "weir.db"), text) {
				return text
			}
			return "not kept"
		})
	}
}

// keptText reports whether a key or a value of a store's file has a text. A copy that was made while the
// file was written may be no store.
func keptText(t *testing.T, path, text string) (found bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(copied, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return false
	}
	defer db.Close()
	_ = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error {
				found = found || bytes.Contains(key, []byte(text)) || bytes.Contains(value, []byte(text))
				return nil
			})
		})
	})
	return found
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

// fakeServer is an MCP server over HTTP.
func fakeServer(t *testing.T) *httptest.Server {
	t.Helper()
	far, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	web := httptest.NewServer(far)
	t.Cleanup(web.Close)
	return web
}

// TestKilledSessions: sessions at each endpoint go on after kill -9, and those that were ended before
// it stay ended.
func TestKilledSessions(t *testing.T) {
	t.Parallel()
	web := fakeServer(t)
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
	for name, mode := range map[string]os.FileMode{"": 0o700, "key": 0o600, "weir.db": 0o600} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(r.path), "state", name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("state/%s: %v, %v", name, info, err)
		}
	}
	second := writeConfig(t, "weir.yaml", "store: file:"+filepath.Join(filepath.Dir(r.path), "state"))
	weir(t, "serve", "--config", second, "--listen", "127.0.0.1:0").want(t, exitUsage, "another weir uses ")
	r.end(syscall.SIGTERM)
	if err := os.Remove(filepath.Join(filepath.Dir(r.path), "state", "weir.db")); err != nil {
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

// TestKilledResults: a result that was held back is there after kill -9, and the same result has the same
// handle afterwards.
func TestKilledResults(t *testing.T) {
	t.Parallel()
	r := startKept(t, "mcpServers: {fake: {command: %FAKE%}}")
	c := newPlainClient(t, r.url)
	call := func() string {
		t.Helper()
		_, body := c.ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+r.tool("fake:echo")+`","args":{"size":50000}}}`)
		handle := handlePattern.FindString(body)
		if handle == "" {
			t.Fatalf("no handle in %s", body)
		}
		return handle
	}
	handle := call()
	for range 2 {
		r.kill(t)
		if status, body := c.ask(t, "tools/call", `{"name":"tool_view","arguments":{"handle":"`+handle+`","selector":{"type":"head","chars":10,"start":49990}}}`); status != http.StatusOK || !strings.Contains(body, "xxxxxxxxxx") {
			t.Errorf("after a kill: %d %s", status, body)
		}
	}
	if again := call(); again != handle {
		t.Errorf("the same result has the handle %s after a restart, and had %s", again, handle)
	}
	files, err := os.ReadDir(filepath.Join(filepath.Dir(r.path), "state", "artifacts"))
	if err != nil || len(files) != 1 {
		t.Errorf("files: %v, %v", files, err)
	}
}

// TestKilledAgents: an agent that has registered itself can be called after kill -9, before its next
// heartbeat.
func TestKilledAgents(t *testing.T) {
	t.Parallel()
	web := fakeServer(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(web.URL, "http://"), ":")
	r := startKept(t, "mcpServers: {}")
	if status, body := send(t, http.MethodPost, r.base+"/agents", "", `{"name":"guest","instance":"1","port":`+port+`}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	secret := func() string {
		t.Helper()
		_, body := send(t, http.MethodPost, r.base+"/agents", "", `{"name":"guest","instance":"1","port":`+port+`}`)
		return body
	}
	before := secret()
	r.kill(t)
	until(t, `"echo"`, func() string { _, body := ask(t, r.base+"/mcps/guest/mcp", "", "tools/list", "{}"); return body })
	if after := secret(); !strings.Contains(after, "secret") || after != before {
		t.Errorf("the agent has another secret: %s, was %s", after, before)
	}
}

// plainServer is an MCP server over HTTP with one result for each method. seen returns what it was sent,
// each as METHOD PARAMS.
func plainServer(t *testing.T, results map[string]string) (base string, seen func() []string) {
	t.Helper()
	var mu sync.Mutex // guards all
	var all []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID, Params json.RawMessage
			Method     string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		mu.Lock()
		all = append(all, m.Method+" "+string(m.Params))
		mu.Unlock()
		result := results[m.Method]
		if m.ID == nil || result == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if m.Method == "resources/list" {
			time.Sleep(300 * time.Millisecond) // a gateway that has just started does not know them yet
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(web.Close)
	return web.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// TestKilledTaskOwners: at /mcps/NAME/mcp, a task is its principal's after kill -9, and no other's.
func TestKilledTaskOwners(t *testing.T) {
	t.Parallel()
	web, _ := plainServer(t, map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{}},"serverInfo":{"name":"s","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"later","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"task":{"taskId":"t1","status":"working"}}`,
		"tasks/get":  `{"taskId":"t1","status":"completed"}`,
	})
	// What a policy judges is not forwarded byte by byte: weir knows whose each task is.
	r := startKept(t, tokens("ann:", "bob:")+"policy: {rules: [{action: deny, tool: other}]}\nmcpServers: {s: {url: '"+web+"/mcp'}}\n")
	at := r.base + "/mcps/s/mcp"
	if _, body := ask(t, at, "ann", "tools/call", `{"name":"later","arguments":{},"task":{}}`); !strings.Contains(body, `"t1"`) {
		t.Fatal(body)
	}
	r.kill(t)
	if _, body := ask(t, at, "bob", "tasks/get", `{"taskId":"t1"}`); !strings.Contains(body, `"error"`) || strings.Contains(body, "completed") {
		t.Errorf("another principal reads it: %s", body)
	}
	if _, body := ask(t, at, "ann", "tasks/get", `{"taskId":"t1"}`); !strings.Contains(body, `"completed"`) {
		t.Errorf("its principal has lost it: %s", body)
	}
}

// TestKilledSubscriptions: after kill -9, the first request of a session, whatever it is, brings back
// its log level and its subscriptions, except those that it has ended.
func TestKilledSubscriptions(t *testing.T) {
	t.Parallel()
	web, seen := plainServer(t, map[string]string{
		"initialize":            `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}`,
		"resources/list":        `{"resources":[{"uri":"x:a","name":"a"},{"uri":"x:b","name":"b"},{"uri":"x:c","name":"c"}]}`,
		"resources/subscribe":   `{}`,
		"resources/unsubscribe": `{}`,
		"logging/setLevel":      `{}`,
	})
	// What a policy judges is not forwarded byte by byte: the subscriptions are weir's.
	r := startKept(t, "policy: {rules: [{action: deny, tool: other}]}\nmcpServers: {s: {url: '"+web+"/mcp'}}\n")
	one, other := newPlainClient(t, r.base+"/mcp"), newPlainClient(t, r.base+"/mcps/s/mcp")
	do := func(c *plainClient, method, params string) {
		t.Helper()
		if status, body := c.ask(t, method, params); status != http.StatusOK || strings.Contains(body, `"error"`) {
			t.Errorf("%s %s: %d %s", method, params, status, body)
		}
	}
	do(one, "resources/subscribe", `{"uri":"x:a"}`)
	do(other, "logging/setLevel", `{"level":"critical"}`)
	do(other, "resources/subscribe", `{"uri":"x:b"}`)
	do(other, "resources/subscribe", `{"uri":"x:c"}`)
	do(other, "resources/unsubscribe", `{"uri":"x:c"}`)
	// The answer of an unsubscribe does not wait for the server: it is told in the background.
	until(t, "told", func() string {
		if all := strings.Join(seen(), "\n"); !strings.Contains(all, `resources/unsubscribe {"uri":"x:c"}`) {
			return all
		}
		return "told"
	})
	before := len(seen())
	r.kill(t)
	do(one, "ping", `{}`)
	do(other, "ping", `{}`)
	var after string
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // a slow machine restores on in the background
		after = strings.Join(seen()[before:], "\n")
		if strings.Count(after, "x:a") > 0 && strings.Count(after, "x:b") > 0 && strings.Contains(after, "setLevel") || time.Now().After(end) {
			break
		}
	}
	for want, n := range map[string]int{`resources/subscribe {"uri":"x:a"}`: 1, `resources/subscribe {"uri":"x:b"}`: 1, `logging/setLevel {"level":"critical"}`: 1, `"x:c"`: 0} {
		if strings.Count(after, want) != n {
			t.Errorf("%s: %d times in\n%s", want, strings.Count(after, want), after)
		}
	}
}
