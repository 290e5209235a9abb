package config

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOmit: a sound entry can be left out, with the reason, and comes and goes with a
// reload like one that is disabled.
func TestOmit(t *testing.T) {
	out := map[string]bool{"b": true}
	opts := Options{Omit: func(c *Config, s *Server) string {
		if out[s.Name] && len(c.Servers) == 4 {
			return s.Name + " is weir"
		}
		return ""
	}}
	read := func() *Config {
		return parse(t, "mcpServers: {a: {command: a}, b: {command: b}, c: {command: c, disabled: true}, d: {}}", opts)
	}
	names := func(servers []*Server) (all string) {
		for _, s := range servers {
			all += s.Name
		}
		return all
	}
	one := read()
	if names(one.Enabled()) != "a" || names(one.Kept()) != "acd" || one.Omitted("b") != "b is weir" || one.Omitted("a") != "" {
		t.Errorf("enabled %s, kept %s, %q", names(one.Enabled()), names(one.Kept()), one.Omitted("b"))
	}
	out["b"], out["c"], out["d"] = false, true, true // what is disabled or faulty is not asked about
	two := read()
	if change := Diff(one, two); !slices.Equal(change.Added, []string{"b"}) || len(change.Removed) != 0 || two.Omitted("c") != "" || two.Omitted("d") != "" {
		t.Errorf("%+v", change)
	}
	if change := Diff(two, one); !slices.Equal(change.Removed, []string{"b"}) || !slices.Equal(change.Omitted, []string{"b"}) {
		t.Errorf("%+v", change)
	}
}

// TestFaultyEntryKeepsItsServer: in a file that is read again, an entry that has
// become wrong leaves its server as it was, secrets and port included, and says so;
// one that is new fails alone.
func TestFaultyEntryKeepsItsServer(t *testing.T) {
	opts := Options{LookupEnv: func(name string) (string, bool) { return "s3cr3t-value", name == "KEY" }}
	first := parse(t, `
mcpServers:
  a: {command: x, args: ["${weir:port}"], env: {TOKEN: "${KEY}"}}
  b: {command: x}
  moved: {command: x, namespace: space}
`, opts)
	opts.again.before = first
	next, warnings, err := Parse("weir.yaml", []byte(`
mcpServers:
  a: {command: x, env: {TOKEN: "${GONE}"}}
  b: {command: y}
  moved: {command: [], namespace: other}
  taker: {command: x, namespace: space}
  c: {comand: z}
`), opts)
	if err != nil {
		t.Fatal(err)
	}
	was, _ := first.Server("a")
	if now, _ := next.Server("a"); now != was || now.Faulty() {
		t.Errorf("a is %+v, want the one before", now)
	}
	if !slices.Contains(next.Secrets(), "s3cr3t-value") || next.resolved.ports["a"] == 0 || next.resolved.ports["a"] != first.resolved.ports["a"] {
		t.Errorf("secrets %q, ports %v; want those of the server that goes on", next.Secrets(), next.resolved.ports)
	}
	if len(warnings) != 4 || !strings.Contains(warnings[0].String(), `GONE is not set`) || !strings.Contains(warnings[0].String(), `the server "a" keeps running as it was configured before`) {
		t.Errorf("warnings %v", warnings)
	}
	for _, name := range []string{"c", "moved"} { // the namespace of moved is another server's now
		if s, _ := next.Server(name); !s.Faulty() {
			t.Errorf("%s is not faulty", name)
		}
	}
	change := Diff(first, next)
	if got := [][]string{change.Added, change.Removed, change.Changed, change.Faulty}; !slices.EqualFunc(got, [][]string{{"taker"}, {"moved"}, {"b"}, {"c", "moved"}}, slices.Equal) {
		t.Errorf("added, removed, changed, faulty = %q", got)
	}
	if again := Diff(next, next); !again.Empty() {
		t.Errorf("differs from itself: %+v", again)
	}
	if len(next.Faults()) != 3 || len(next.Enabled()) != 3 {
		t.Errorf("%d faults, %d servers that can be started", len(next.Faults()), len(next.Enabled()))
	}
}

// TestFault: the sentence for others has neither the folder of the file nor a
// secret, and says that there is more.
func TestFault(t *testing.T) {
	c, _, err := Parse("/home/me/secret place/weir.yaml", []byte("mcpServers: {a: {comand: x, timeout: soon}}"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `weir.yaml:1:14: mcpServers.a has neither command nor url; give the program to start or the URL to call (and 2 more: weir config check lists them)`
	if got := c.Servers[0].Fault(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWatchKeepsServers: the same through Watch, as a running gateway reads it.
func TestWatchKeepsServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mcpServers: {a: {command: x}}")
	c, _, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	write("mcpServers: {a: {command: []}, b: {command: y}}")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := Watch(ctx, c, Options{}, func(next *Config, warnings []Warning, err error) {
		defer cancel()
		if err != nil {
			t.Error(err)
			return
		}
		if a, _ := next.Server("a"); a.Command != "x" || len(warnings) != 1 || len(next.Enabled()) != 2 {
			t.Errorf("a is %+v, warnings %v", a, warnings)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestWorkspaceFolder: a file in a client's own folder belongs to the project
// around it.
func TestWorkspaceFolder(t *testing.T) {
	project := t.TempDir()
	for _, name := range []string{".cursor/mcp.json", ".vscode/mcp.json", ".mcp.json"} {
		path := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"mcpServers": {"a": {"command": "x", "args": ["${workspaceFolder}", "${userHome}"]}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := Load(path, Options{LookupEnv: func(name string) (string, bool) { return "/home/me", name == "HOME" }})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Servers[0].Args; len(got) != 2 || got[0] != project || got[1] != "/home/me" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
