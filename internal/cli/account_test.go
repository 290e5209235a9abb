package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/password"
	"github.com/weir-mcp/weir/internal/config"
)

// TestAccounts adds people, gives one another password, and removes them. The file is one that weir takes, after each
// command.
func TestAccounts(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"} {
		t.Setenv(name, home)
	}
	file := filepath.Join(home, "weir.yaml")
	if err := os.WriteFile(file, []byte("# mine\nmcpServers: {a: {command: x}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	account := func(stdin string, args ...string) (int, string) {
		t.Helper()
		var out, errs bytes.Buffer
		code := run(t.Context(), "test", append(append([]string{"account"}, args...), "--config", file), strings.NewReader(stdin), &out, &errs)
		return code, out.String() + errs.String()
	}
	load := func() *config.Config {
		t.Helper()
		c, _, err := config.Load(file, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, step := range []struct {
		stdin string
		args  []string
		code  int
	}{
		{"short", []string{"add", "ann", "--stdin", "--yes"}, exitUsage},
		{"correct horse", []string{"add", "a b", "--stdin", "--yes"}, exitUsage},
		{"correct horse\n", []string{"add", "ann", "--stdin", "--yes", "--group", "sre"}, exitOK},
		{"battery staple", []string{"add", "bob", "--stdin", "--yes"}, exitOK},
		{"another horse", []string{"add", "ann", "--stdin", "--yes"}, exitOK},
		{"", []string{"rm", "eve", "--yes"}, exitUsage},
		{"", []string{"rm", "bob", "--yes"}, exitOK},
		{"", []string{"rm", "ann", "--yes"}, exitUsage}, // the last one
	} {
		if code, out := account(step.stdin, step.args...); code != step.code {
			t.Fatalf("%q: %d %s", step.args, code, out)
		}
	}
	c := load()
	if len(c.Auth.Accounts) != 1 || c.Auth.Server.People != config.PeopleAccounts || c.PublicURL != "http://127.0.0.1:8088" {
		t.Fatalf("%+v, %q", c.Auth, c.PublicURL)
	}
	ann := c.Auth.Accounts[0]
	if ann.Name != "ann" || !password.Fits(ann.Password, "another horse") || password.Fits(ann.Password, "correct horse") || len(ann.Groups) != 1 || ann.Groups[0] != "sre" {
		t.Errorf("%+v", ann)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "# mine\nmcpServers: {a: {command: x}}\n") {
		t.Errorf("the rest of the file has changed: %s, %v", text, err)
	}
	if _, out := account("", "ls"); strings.TrimSpace(out) != "ann  sre" {
		t.Errorf("ls: %q", out)
	}
	if _, out := account("", "ls", "--json"); !strings.Contains(out, `"groups"`) || strings.Contains(out, "argon2id") {
		t.Errorf("ls --json: %s", out)
	}
}
