package weir_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// operated is a gateway within this program, with an operator of the token "operator's".
type operated struct {
	t     *testing.T
	front *httptest.Server
}

// operate serves a configuration. The user's folders are temporary.
func operate(t *testing.T, c *weir.Config) *operated {
	t.Helper()
	g, err := weir.New(t.Context(), c, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(g)
	t.Cleanup(func() {
		if err := g.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		front.Close()
	})
	return &operated{t, front}
}

// ask sends a request of the operator and returns the status, the tag and the body of the answer.
func (o *operated) ask(method, path, tag, body string) (status int, etag, answer string) {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.front.URL+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+operatorToken)
	r.Header.Set("Content-Type", "application/json")
	if tag != "" {
		r.Header.Set("If-Match", `"`+tag+`"`)
	}
	resp, err := o.front.Client().Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, strings.Trim(resp.Header.Get("ETag"), `"`), string(text)
}

const operatorToken = "the-token-of-an-operator-of-this-test"

var operatedConfig = fmt.Sprintf("mode: gateway\nauth:\n  tokens:\n    - {name: ann, sha256: %x, operator: true}\n", sha256.Sum256([]byte(operatorToken)))

// userFolders gives the test folders of its own for weir's files.
func userFolders(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "APPDATA", "LOCALAPPDATA"} {
		t.Setenv(name, home)
	}
}

// edited is what the API answers to a change.
type edited struct {
	Tag       string
	Operation int
	Problem   string
	Servers   []struct{ Name, State string }
}

// TestEmbedderEditsServers: an operator adds, changes and removes servers of a gateway within another
// program. The file that it was given changes, and the gateway serves what the file says.
func TestEmbedderEditsServers(t *testing.T) {
	userFolders(t)
	back := httptest.NewServer(streamable.NewServer(streamable.ServerOptions{
		Handler: &mcp.Lifecycle{ServerInfo: json.RawMessage(`{"name":"echo","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) }, Next: &tracedServer{}},
	}))
	t.Cleanup(back.Close)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("# ours\n"+operatedConfig+"mcpServers: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := weir.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	o := operate(t, c)
	change := func(method, path, tag, body string, want int) (e edited) {
		t.Helper()
		status, _, answer := o.ask(method, path, tag, body)
		if status != want {
			t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
		if err := json.Unmarshal([]byte(answer), &e); want == http.StatusOK && (err != nil || e.Problem != "") {
			t.Fatalf("%s %s: %v, %s", method, path, err, answer)
		}
		return e
	}
	text, err := json.Marshal(map[string]any{"text": back.URL + "/mcp", "name": "echo"})
	if err != nil {
		t.Fatal(err)
	}
	plan := change("POST", "/api/v1/servers", "", strings.Replace(string(text), "{", `{"plan":true,`, 1), http.StatusOK)
	added := change("POST", "/api/v1/servers", plan.Tag, string(text), http.StatusOK)
	if len(added.Servers) != 1 || added.Servers[0].State != "ready" || added.Operation == 0 {
		t.Errorf("added: %+v", added)
	}
	if doc, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(doc), "# ours\n") || !strings.Contains(string(doc), back.URL) {
		t.Errorf("the file is %s, %v", doc, err)
	}
	if _, _, tools := o.ask("GET", "/api/v1/catalog?query=echo", "", ""); !strings.Contains(tools, "says it again") {
		t.Errorf("the catalog has %s", tools)
	}
	change("PATCH", "/api/v1/servers/echo", plan.Tag, `{"change":{"disabled":true}}`, http.StatusConflict)
	changed := change("PATCH", "/api/v1/servers/echo", added.Tag, `{"change":{"disabled":true}}`, http.StatusOK)
	if len(changed.Servers) != 1 || changed.Servers[0].State != "disabled" {
		t.Errorf("changed: %+v", changed)
	}
	faulty := change("PATCH", "/api/v1/servers/echo", changed.Tag, `{"change":{"disabled":null,"no_such_key":1}}`, http.StatusOK)
	if len(faulty.Servers) != 1 || faulty.Servers[0].State != "failed" {
		t.Errorf("with a mistake: %+v", faulty)
	}
	removed := change("DELETE", "/api/v1/servers/echo", faulty.Tag, "{}", http.StatusOK)
	if doc, err := os.ReadFile(file); err != nil || strings.Contains(string(doc), back.URL) || len(removed.Servers) != 0 {
		t.Errorf("removed: %+v, the file is %s, %v", removed, doc, err)
	}
	if status, _, answer := o.ask("GET", "/api/v1/doctor", "", ""); status != http.StatusOK {
		t.Errorf("the doctor answers %d %s", status, answer)
	}
}

// TestEmbedderWithoutFile: a gateway whose configuration is no file refuses its change.
func TestEmbedderWithoutFile(t *testing.T) {
	userFolders(t)
	o := operate(t, parse(t, operatedConfig+"mcpServers: {}\n"))
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/api/v1/servers", `{"text":"http://127.0.0.1:1/mcp"}`},
		{"POST", "/api/v1/servers", `{"text":"http://127.0.0.1:1/mcp","plan":true}`},
		{"DELETE", "/api/v1/servers/echo", "{}"},
		{"GET", "/api/v1/doctor", ""},
	} {
		if status, _, answer := o.ask(tt.method, tt.path, "tag", tt.body); status != http.StatusNotFound || !strings.Contains(answer, "no configuration file") {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, status, answer)
		}
	}
}
