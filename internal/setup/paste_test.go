package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// shelf keeps secrets in memory.
type shelf map[string]string

func (s shelf) Lookup(name string) (string, bool, error) { v, ok := s[name]; return v, ok, nil }

func (s shelf) Set(name, value string) (string, error) { s[name] = value; return "here", nil }

func (s shelf) Remove(name string) error { delete(s, name); return nil }

// machineWith is a machine with a weir.yaml.
func machineWith(t *testing.T, doc string) *Machine {
	t.Helper()
	home := t.TempDir()
	j, err := journal.Open(filepath.Join(home, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Env: environmentOf(home), Config: filepath.Join(home, "weir.yaml"), Journal: j, Secrets: shelf{}}
	if err := os.WriteFile(m.Config, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNamesOfOwnSecrets imports secrets that have the names of weir's own: they get others, wherever
// their values go.
func TestNamesOfOwnSecrets(t *testing.T) {
	m := machineWith(t, "mcpServers: {}\n")
	secrets := []clients.Secret{{Name: "WEIR_CREDENTIALS_KEY", Value: "of a bundle"}, {Name: "WEIRD", Value: "of another"}}
	server := clients.Server{Name: "weir", Transport: clients.Stdio, Command: "x", Env: map[string]string{"T": secrets[0].Reference(), "U": secrets[1].Reference()}}
	for where, want := range map[Place]string{
		Store: "${secret:SERVER_WEIR_CREDENTIALS_KEY} ${secret:WEIRD}", Env: "${env:SERVER_WEIR_CREDENTIALS_KEY} ${env:WEIRD}", Inline: "of a bundle of another",
	} {
		p, err := m.Import("add", []Source{{Servers: []clients.Server{server}}}, clients.Select{All: true}, secrets...)
		if err != nil {
			t.Fatal(err)
		}
		got := p.ownEdits(where)[0].Value.(splice.Object)
		env := got.Get("env").(splice.Object)
		if text := fmt.Sprint(env.Get("T"), " ", env.Get("U")); text != want {
			t.Errorf("%s: %s, want %s", where, text, want)
		}
		if name := p.SecretName(secrets[0]); name != "SERVER_WEIR_CREDENTIALS_KEY" {
			t.Errorf("the store has %s", name)
		}
	}
}

// TestPaste reads texts as people have them in their hands.
func TestPaste(t *testing.T) {
	m := machineWith(t, "mcpServers:\n  here: {command: here}\n")
	for pasted, want := range map[string]string{
		"https://api.githubcopilot.com/mcp/":                             "githubcopilot https://api.githubcopilot.com/mcp/",
		"http://127.0.0.1:8080/sse":                                      "127-0-0-1 http://127.0.0.1:8080/sse",
		"uvx mcp-server-time":                                            "time uvx mcp-server-time",
		`A=b npx -y "@modelcontextprotocol/server-everything@1.2" 'x y'`: "everything npx -y @modelcontextprotocol/server-everything@1.2 x y",
		`{"mcpServers":{"one":{"command":"a","args":["b"]}}}`:            "one a b",
		`{"servers":{"two":{"type":"http","url":"https://x.test/mcp"}}}`: "two https://x.test/mcp",
		`"three": {"command": "c"},`:                                     "three c",
		`{"four": {"command": "d"}}`:                                     "four d",
		`{"command": "e", "args": ["f"]}`:                                "server e f",
		"[mcp_servers.five]\ncommand = \"g\"\n":                          "five g",
		"mcpServers:\n  six:\n    command: h\n":                          "six h",
		`{"mcpServers":{"a":{"command":"i"},"b":{"command":"j"}}}`:       "a i, b j",
	} {
		p, err := m.Paste(pasted, "")
		if err != nil {
			t.Errorf("%s: %v", pasted, err)
			continue
		}
		var got []string
		for _, s := range p.Import.Servers {
			got = append(got, strings.Join(append([]string{s.Name, s.Server.URL + s.Server.Command}, s.Server.Args...), " "))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", pasted, got, want)
		}
	}
	for pasted, want := range map[string]string{
		"": "paste a URL", "{": "paste a URL", "a | b": "needs a shell", `a "b`: "does not end", "here": "is taken", "X=1": "paste a URL", strings.Repeat("x", maxPaste+1): "at most",
	} {
		if _, err := m.Paste(pasted, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", pasted, err, want)
		}
	}
	if _, err := m.Paste(`{"mcpServers":{"a":{"command":"i"},"b":{"command":"j"}}}`, "c"); err == nil {
		t.Error("one name for two servers")
	}
}

const amended = `mcpServers:
  # the files
  files:
    command: files # a program
    args: [--token, ghp_0123456789abcdefghijABCDEFGHIJ456789]
    env: {API_KEY: very-secret-text-0123, LEVEL: debug}
`

// TestEntryHidesSecrets: what a person sees of an entry has no secret.
func TestEntryHidesSecrets(t *testing.T) {
	m := machineWith(t, amended)
	entry, err := m.Entry("files")
	if err != nil {
		t.Fatal(err)
	}
	env, _ := entry.Get("env").(splice.Object)
	args, _ := entry.Get("args").([]any)
	if env.Get("API_KEY") != "•••" || env.Get("LEVEL") != "debug" || len(args) != 2 || args[1] != "•••" || entry.Get("command") != "files" {
		t.Errorf("%v", entry)
	}
	if _, err := m.Entry("none"); !errors.Is(err, ErrNoServer) {
		t.Error(err)
	}
}

// TestAmend changes members of an entry, keeps all other bytes, and puts secrets into the store.
func TestAmend(t *testing.T) { synctest.Test(t, testAmend) } // the journal looks again after a wait

func testAmend(t *testing.T) {
	m := machineWith(t, amended)
	change := func(text string) splice.Object {
		v, err := splice.Decode([]byte(text), splice.JSON)
		if err != nil {
			t.Fatal(err)
		}
		return v.(splice.Object)
	}
	p, err := m.Amend("files", change(`{"command":"other","cwd":null,"env":{"LEVEL":null,"API_KEY":"another-secret-4567"},"timeout":"5s"}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Apply(t.Context(), Store)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(m.Config)
	for _, part := range []string{"# the files", "command: other # a program", `API_KEY: "${secret:API_KEY}"`, `timeout: "5s"`} {
		if !strings.Contains(string(got), part) {
			t.Errorf("no %s in\n%s", part, got)
		}
	}
	if strings.Contains(string(got), "LEVEL") || strings.Contains(string(got), "another-secret") || m.Secrets.(shelf)["API_KEY"] != "another-secret-4567" {
		t.Errorf("%s\n%v", got, m.Secrets)
	}
	if _, err := m.Undo(t.Context(), r.Record.N); err != nil {
		t.Fatal(err)
	}
	if got, _ = os.ReadFile(m.Config); string(got) != amended || len(m.Secrets.(shelf)) != 0 {
		t.Errorf("after the undo:\n%s\n%v", got, m.Secrets)
	}
	if _, err := m.Amend("files", change(`{"env":{"API_KEY":"•••"}}`)); !errors.Is(err, errHidden) {
		t.Error(err)
	}
}

// TestAmendKeepsHiddenElements: an element of a list that was shown with a hidden secret keeps it, where
// its list changes. One that stands for nothing is refused.
func TestAmendKeepsHiddenElements(t *testing.T) {
	const key = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	m := machineWith(t, "mcpServers:\n  files:\n    command: x\n    args: [--verbose, --token="+key+"]\n")
	shown, err := m.Entry("files")
	if err != nil {
		t.Fatal(err)
	}
	args := shown.Get("args").([]any)
	if args[1] == "--token="+key || !strings.Contains(args[1].(string), clients.Hidden) {
		t.Fatalf("shown: %v", args)
	}
	p, err := m.Amend("files", splice.Object{{Key: "args", Value: []any{args[1], "--quiet"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Import.Secrets) != 1 || p.Import.Secrets[0].Value != key {
		t.Errorf("the secrets are %v", p.Import.Secrets)
	}
	list := p.Files[0].edits[0].Value.([]any)
	if text := list[0].(string); !strings.HasPrefix(text, "--token=${secret:") || list[1] != "--quiet" {
		t.Errorf("the list becomes %v", list)
	}
	if _, err := m.Amend("files", splice.Object{{Key: "args", Value: []any{"--other=" + clients.Hidden}}}); !errors.Is(err, errHidden) {
		t.Error(err)
	}
}

// TestPlanOfAnotherFile: a plan for a file that has changed since is not applied.
func TestPlanOfAnotherFile(t *testing.T) { synctest.Test(t, testPlanOfAnotherFile) }

func testPlanOfAnotherFile(t *testing.T) {
	m := machineWith(t, amended)
	p, err := m.Paste("uvx mcp-server-time", "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Against, err = m.Digest(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Config, []byte(amended+"# a person's\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(t.Context(), Store); !errors.Is(err, journal.ErrChanged) {
		t.Error(err)
	}
	if p.Against, err = m.Digest(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(t.Context(), Store); err != nil {
		t.Error(err)
	}
}
