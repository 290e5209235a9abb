package lineage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestLeadsTo: which URLs are those of a gateway.
func TestLeadsTo(t *testing.T) {
	for _, c := range []struct {
		url, listen, public string
		own                 bool
	}{
		{"http://127.0.0.1:8088/mcp", "127.0.0.1:8088", "", true},
		{"http://localhost:8088/mcp/", "127.0.0.1:8088", "", true},
		{"http://[::1]:8088/sse", "0.0.0.0:8088", "", true},
		{"http://weir.example:8088/mcp", "weir.example:8088", "", true},
		{"http://127.0.0.1:8089/mcp", "127.0.0.1:8088", "", false},
		{"http://127.0.0.1:8088/mcps/files/mcp", "127.0.0.1:8088", "", false},
		{"http://127.0.0.1:8088/mcp", "127.0.0.1:0", "", false},
		{"http://127.0.0.1:8088/mcp", "10.0.0.7:8088", "", false},
		{"http://10.0.0.7:8088/mcp", "127.0.0.1:8088", "", false},
		{"https://weir.example/gate/mcp", "127.0.0.1:8088", "https://weir.example/gate", true},
		{"https://weir.example/mcp", "127.0.0.1:8088", "https://weir.example/gate", false},
		{"https://other.example/mcp", "127.0.0.1:443", "", false},
		{"http://127.0.0.1/mcp", "127.0.0.1:80", "", true},
	} {
		if got := leadsTo(c.url, c.listen, c.public); got != c.own {
			t.Errorf("%s, listening on %s, public %q: %t", c.url, c.listen, c.public, got)
		}
	}
}

// TestStartsItself: which entries are weir with a configuration.
func TestStartsItself(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"weir.yaml", "other.yaml", "sub/weir.yaml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mcpServers: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	weirBin, fakeBin := filepath.Join(dir, "bin", "weir"), filepath.Join(dir, "bin", "other")
	if err := os.Mkdir(filepath.Dir(weirBin), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{weirBin, fakeBin} {
		if err := os.WriteFile(program, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	i := &selfCheck{exe: weirBin, env: []string{"PATH=" + filepath.Dir(weirBin)}}
	for line, want := range map[string]bool{
		weirBin + " serve": true, weirBin + " serve --stdio": true, weirBin + " serve --config weir.yaml": true, weirBin + " serve --config=sub/../weir.yaml": true,
		"weir serve --stdio": true, "npx -y weir-mcp serve": true, "npx --yes @weir/weir-mcp@1.2.3 -- serve --stdio": true, "npm exec -y weir-mcp -- serve": true, "bunx weir-mcp serve": true,
		"go run ./cmd/weir serve": true, "go run -race github.com/weir-mcp/weir/cmd/weir@v1 serve --config weir.yaml": true, "go run cmd/weir/main.go serve": true,
		weirBin + " serve --config other.yaml": false, weirBin + " serve --config sub/weir.yaml": false, weirBin + " serve --catalog tools.json": false,
		weirBin + " demo notes": false, weirBin + " ls": false, weirBin: false, weirBin + " agent --config weir.yaml": false,
		"npx -y weir-mcp demo notes": false, "npx -y other-mcp serve": false, "go build ./cmd/weir serve": false, "go run ./cmd/weird serve": false, fakeBin + " serve": false,
	} {
		words := strings.Fields(line)
		s := &config.Server{Name: "x", Command: words[0], Args: words[1:], Cwd: dir}
		if got := i.starts(s, filepath.Join(dir, "weir.yaml")); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
	if i.starts(&config.Server{Command: weirBin, Args: []string{"serve"}, Cwd: filepath.Join(dir, "sub")}, filepath.Join(dir, "weir.yaml")) {
		t.Error("weir in another folder has that folder's configuration")
	}
}

// TestLineage: a process that comes from a weir with its configuration says so, and how
// many may be behind one another is bounded.
func TestLineage(t *testing.T) {
	dir := t.TempDir()
	value := ""
	var l Lineage
	for n := range maxAncestors {
		var err error
		if l, err = Descend(value, filepath.Join(dir, fmt.Sprint(n))); err != nil || len(l) != n+1 {
			t.Fatalf("%d behind one another: %v, %v", n, l, err)
		}
		value = strings.TrimPrefix(l.Variable()[0], ParentVariable+"=")
	}
	if _, err := Descend(value, filepath.Join(dir, "more")); err == nil || !strings.Contains(err.Error(), l[len(l)-1].instance) {
		t.Errorf("over the bound: %v", err)
	}
	if _, err := Descend(value, filepath.Join(dir, "x", "..", "0")); err == nil || !strings.Contains(err.Error(), l.Instances()[0]) {
		t.Errorf("the configuration of the first: %v", err)
	}
	value = strings.Repeat("x,", 1000) + "a.b," + strings.Repeat("y.", 1000)
	if l, err := Descend(value, ""); err != nil || len(l) != 2 || l[0] != (ancestor{"a", "b"}) {
		t.Errorf("%v, %v", l, err)
	}
}
