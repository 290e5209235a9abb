package weir_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// embedder is the program of the package's documentation, which tells its address instead of
// listening at a fixed one.
const embedder = `package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/weir-mcp/weir"
)

func main() {
	c, err := weir.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	g, err := weir.New(context.Background(), c, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Shutdown(context.Background())
	server := httptest.NewServer(g)
	defer server.Close()
	if err := g.Ready(context.Background()); err != nil {
		log.Fatal(err)
	}
	resp, err := http.Get(server.URL + "/healthz")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
}
`

// public are the packages that programs of others import.
var public = []string{
	".", "mcp", "mcp/jsonrpc", "mcp/stdio", "mcp/streamable", "mcp/sse", "s2sp", "s2sp/table", "s2sp/plane", "s2sp/dispatch",
	"agentserver", "agentclient", "smcp", "smcp/hub", "smcp/computer", "smcp/agent", "socketio", "socketio/engineio",
}

// TestOutsideModule builds and runs a program of another module that serves a .mcp.json, and runs the
// examples of every public package from there.
func TestOutsideModule(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds two programs")
	}
	t.Parallel()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fake := filepath.Join(dir, "fakemcp")
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(root, "go", "build", "-o", fake, "./internal/testkit/fakemcp/cmd/fakemcp")
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(module), "module github.com/weir-mcp/weir", "module example.com/embedder", 1)
	write("go.mod", []byte(text+"\nrequire github.com/weir-mcp/weir v0.0.0\nreplace github.com/weir-mcp/weir => "+root+"\n"))
	write("go.sum", sums)
	write("main.go", []byte(embedder))
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"fake": map[string]any{"command": fake, "required": true}}})
	if err != nil {
		t.Fatal(err)
	}
	write(".mcp.json", servers)
	if out := run(dir, "go", "run", ".", ".mcp.json"); !strings.Contains(out, "200 OK") {
		t.Errorf("the embedder prints %s", out)
	}
	args := []string{"test", "-run", "^Example"}
	for _, p := range public {
		if p == "." {
			args = append(args, "github.com/weir-mcp/weir")
			continue
		}
		args = append(args, "github.com/weir-mcp/weir/"+p)
	}
	run(dir, "go", args...)
}

func parse(t *testing.T, text string) *weir.Config {
	t.Helper()
	c, err := weir.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReload: a changed configuration is in force at the next request, and none after the end.
func TestReload(t *testing.T) {
	g, err := weir.New(t.Context(), parse(t, "mcpServers: {}\n"), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	status := func() int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/console", nil)
		r.RemoteAddr = "127.0.0.1:1"
		g.ServeHTTP(w, r)
		return w.Code
	}
	if code := status(); code != http.StatusOK {
		t.Errorf("the console answers %d", code)
	}
	without := parse(t, "mcpServers: {}\nconsole: false\n")
	if err := g.Reload(without); err != nil || status() != http.StatusNotFound {
		t.Errorf("%v, the console answers %d", err, status())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 2 {
		if err := g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := g.Reload(without); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestParseListsProblems: the error names every place that is wrong, and a server that is wrong alone
// is a warning.
func TestParseListsProblems(t *testing.T) {
	_, err := weir.Parse("weir.yaml", []byte("mode: other\nlisten: 5\n"))
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:1") || !strings.Contains(err.Error(), "weir.yaml:2") {
		t.Errorf("%v", err)
	}
	c := parse(t, "mcpServers: {bad: {url: nowhere}}\n")
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "bad") || c.Listen() != "127.0.0.1:8088" {
		t.Errorf("%q, %s", w, c.Listen())
	}
}
