package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// secretsOfHome are the secret values in the clients' files of the fixture home.
var secretsOfHome = []string{"ghp_0123456789abcdefghijklmnopqrstuvAb3d", "github_pat_11ABCDEFG0abcdefghijkl_0123456789", "sk-0123456789abcdefghijklmnop"}

// aHome is a copy of the fixture home: three clients with ten servers.
type aHome struct {
	dir string
	env []string
}

func newHome(t *testing.T) *aHome {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../setup/clients/testdata/home")); err != nil {
		t.Fatal(err)
	}
	return &aHome{dir, []string{
		"HOME=" + dir, "USERPROFILE=" + dir, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "DBUS_SESSION_BUS_ADDRESS=", "APPDATA=", "LOCALAPPDATA=",
		"CLAUDE_CONFIG_DIR=", "CODEX_HOME=", "@" + dir,
	}}
}

// weir runs a command in the home.
func (h *aHome) weir(t *testing.T, args ...string) finished {
	t.Helper()
	return weir(t, append(slices.Clone(h.env), args...)...)
}

// files returns the contents of all files in the home, by path.
func (h *aHome) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(h.dir, path)
		all[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// theirs returns the files that are not in a folder of weir's.
func theirs(files map[string]string) map[string]string {
	out := maps.Clone(files)
	maps.DeleteFunc(out, func(name, _ string) bool { return strings.Contains(name, "/weir/") })
	return out
}

// sameFiles compares two sets of files.
func sameFiles(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is new", what, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s: %s is\n%s\nwant\n%s", what, name, got[name], want[name])
		}
	}
}

// noSecrets looks for the secret values in files. The store may have them, and the journal, which has
// the originals.
func noSecrets(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if strings.Contains(name, "/weir/journal/") || strings.HasSuffix(name, "/weir/secrets.yaml") {
			continue
		}
		for _, secret := range secretsOfHome {
			if strings.Contains(text, secret) {
				t.Errorf("%s has the secret %.6s…", name, secret)
			}
		}
	}
}

func TestImportShowsThePlanAndChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	before := h.files(t)
	for _, args := range [][]string{{"import"}, {"import", "--dry-run"}, {"import", "--json"}, {"connect", "cursor"}} {
		code := exitUsage
		if slices.Contains(args, "--dry-run") {
			code = exitOK
		}
		f := h.weir(t, args...)
		f.want(t, code, "github")
		for _, secret := range secretsOfHome {
			if strings.Contains(f.stdout+f.stderr, secret) {
				t.Errorf("%q prints the secret %.6s…", args, secret)
			}
		}
		sameFiles(t, strings.Join(args, " "), theirs(h.files(t)), before)
	}
	h.weir(t, "import").want(t, exitUsage, "+ time", "tracker", "sandbox", "ghp_…Ab3d (40)", "--yes")
	h.weir(t, "import", "nothing").want(t, exitUsage, "no such client")
	h.weir(t, "connect", "nothing").want(t, exitUsage, "claude-code")
}

func TestConnectAndDisconnectEachClient(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	before := h.files(t)
	for _, id := range []string{"claude-code", "cursor", "vscode"} {
		h.weir(t, "connect", id, "--yes").want(t, exitOK, "weir into "+id, "weir undo")
	}
	connected := h.files(t)
	noSecrets(t, connected)
	for name := range before {
		if strings.Contains(connected[name], "github") || !strings.Contains(connected[name], `"attach"`) {
			t.Errorf("%s is\n%s", name, connected[name])
		}
	}
	if !strings.Contains(connected[".config/Code/User/mcp.json"], "tracker") {
		t.Error("the server that logs in by itself did not stay in the client")
	}
	var listed []struct{ Client, State string }
	if err := json.Unmarshal([]byte(h.weir(t, "clients", "--json").want(t, exitOK).stdout), &listed); err != nil {
		t.Fatal(err)
	}
	for _, l := range listed {
		if l.State != "wired" {
			t.Errorf("%s is %s", l.Client, l.State)
		}
	}
	h.weir(t, "connect", "cursor", "--yes").want(t, exitOK, "nothing to change")
	for _, id := range []string{"cursor", "claude-code", "vscode"} {
		h.weir(t, "disconnect", id, "--yes").want(t, exitOK, "weir out of "+id)
	}
	sameFiles(t, "disconnect", theirs(h.files(t)), before)
	h.weir(t, "undo", "--yes").want(t, exitOK, "Undone") // the last disconnect
	if text := h.files(t)[".config/Code/User/mcp.json"]; text != connected[".config/Code/User/mcp.json"] {
		t.Errorf("undo of disconnect: %s", text)
	}
}

func TestUndoTakesEverythingBack(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	before := h.files(t)
	h.weir(t, "connect", "cursor", "--yes").want(t, exitOK)
	h.weir(t, "undo").want(t, exitUsage, "Undo 1", "--yes")
	h.weir(t, "undo", "--yes").want(t, exitOK, "as before")
	after := h.files(t)
	maps.DeleteFunc(after, func(name, _ string) bool { return strings.Contains(name, "/weir/journal/") })
	for name, text := range after {
		if strings.HasSuffix(name, "/weir/secrets.yaml") && !slices.ContainsFunc(secretsOfHome, func(s string) bool { return strings.Contains(text, s) }) {
			delete(after, name)
		}
		if strings.HasSuffix(name, ".lock") {
			delete(after, name)
		}
	}
	sameFiles(t, "undo", after, before)
	h.weir(t, "undo", "--yes").want(t, exitUsage, "nothing to undo")
	h.weir(t, "undo", "--list").want(t, exitOK, "undone by 2", "connect")
	h.weir(t, "__complete", "undo", "").want(t, exitOK, "2\tundo")
}

// TestChangesOfOneServer goes through the life of a server in a weir.yaml with comments.
func TestChangesOfOneServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const mine = "# my servers\nmcpServers:\n  # the first\n  one:\n    command: one   # odd\n"
	conf := filepath.Join(h.dir, "weir.yaml")
	if err := os.WriteFile(conf, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		data, err := os.ReadFile(conf)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, wrong := range [][]string{
		{"add", "one", "--no-start", "--yes", "--", fakeBin}, {"add", "x"}, {"add", "x", "y"}, {"add", "x", "ftp://a.example"},
		{"add", "x", "https://a.example/mcp", "--env", "A=b"}, {"remove", "two"}, {"add", "cursor"}, {"add", "x", "--env", "A", "--", "y"},
	} {
		h.weir(t, wrong...).want(t, exitUsage)
	}
	h.weir(t, "add", "broken", "--yes", "--", "/nonexistent/server").want(t, exitUnavailable, "--no-start")
	if read() != mine {
		t.Fatalf("a server that does not start changed the file:\n%s", read())
	}
	h.weir(t, "add", "fake", "--env", "API_TOKEN=abcdefgh12345678", "--yes", "--", fakeBin).want(t, exitOK, "✓ fake", "API_TOKEN", "weir undo")
	added := read()
	if !strings.HasPrefix(added, mine) || !strings.Contains(added, "${secret:API_TOKEN}") || strings.Contains(added, "abcdefgh12345678") {
		t.Fatalf("added:\n%s", added)
	}
	for _, args := range [][]string{{"--name", "b", "--", fakeBin, "x"}, {"a", "--name", "b", "--", fakeBin, "x"}, {"--name", "b", "https://a.example/mcp"}, {"a", "--name", "b", "https://a.example/mcp"}} {
		f := h.weir(t, append([]string{"add", "--no-start", "--dry-run"}, args...)...).want(t, exitOK, "+ b")
		if strings.Contains(f.stdout, "+ a") {
			t.Errorf("%q:\n%s", args, f.stdout)
		}
	}
	h.weir(t, "add", "--dry-run", "--name", "b", ".claude.json").want(t, exitUsage, "leave --name out")
	h.weir(t, "disable", "fake", "--yes").want(t, exitOK)
	if !strings.Contains(read(), "disabled: true") {
		t.Errorf("disabled:\n%s", read())
	}
	h.weir(t, "disable", "fake", "--yes").want(t, exitOK, "already", "nothing to change")
	h.weir(t, "enable", "fake", "--yes").want(t, exitOK)
	if read() != added {
		t.Errorf("enabled:\n%s\nwant\n%s", read(), added)
	}
	h.weir(t, "__complete", "remove", "").want(t, exitOK, "one\nfake")
	h.weir(t, "remove", "fake", "--yes").want(t, exitOK)
	if read() != mine {
		t.Errorf("removed:\n%s\nwant\n%s", read(), mine)
	}
	h.weir(t, "undo", "1", "--yes").want(t, exitOK)
	if strings.Contains(h.weir(t, "secret", "ls").stdout, "API_TOKEN") {
		t.Error("undo left the secret in the store")
	}
}

// write writes a file of the home, with its folders.
func (h *aHome) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(h.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// installed puts programs of these names on the PATH of the home, which are servers.
func (h *aHome) installed(t *testing.T, names ...string) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexec "+fakeBin+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(h.env, "PATH="+bin+":/usr/bin:/bin")
}

// TestInitAndUndo sets weir up in the fixture home, and takes it back.
func TestInitAndUndo(t *testing.T) {
	t.Parallel()
	needsShell(t)
	h := newHome(t)
	h.installed(t, "npx", "uvx")
	h.env = append(h.env, "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1") // reach no real server
	before := h.files(t)
	h.weir(t, "init").want(t, exitUsage, "Claude Code", "+ time", "--yes")
	h.weir(t, "init", "--dry-run").want(t, exitOK, "+ weir", "- clock")
	sameFiles(t, "init without a yes", theirs(h.files(t)), before)

	began := time.Now()
	f := h.weir(t, "init", "--yes").want(t, exitOK, "✗ broken", "✓ time", "✓ everything", "menu ", " tokens", "Claude Code: restart it", "Cursor: reload", "weir undo")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("init took %s", took)
	}
	for _, secret := range secretsOfHome {
		if strings.Contains(f.stdout+f.stderr, secret) {
			t.Errorf("init prints the secret %.6s…", secret)
		}
	}
	after := h.files(t)
	noSecrets(t, after)
	for _, name := range []string{".claude.json", ".cursor/mcp.json", ".config/Code/User/mcp.json"} {
		if !strings.Contains(after[name], `"attach"`) || strings.Contains(after[name], "github") {
			t.Errorf("%s is\n%s", name, after[name])
		}
	}
	for _, want := range []string{"broken:", "github-cursor:", "${secret:SEARCH_API_KEY}"} {
		if !strings.Contains(after[".config/weir/weir.yaml"], want) {
			t.Errorf("weir.yaml has no %s:\n%s", want, after[".config/weir/weir.yaml"])
		}
	}
	h.weir(t, "config", "check", ".config/weir/weir.yaml").want(t, exitOK, "7 servers")
	h.weir(t, "init", "--yes").want(t, exitOK, "nothing to change", "menu ")
	h.weir(t, "undo", "--yes").want(t, exitOK)
	sameFiles(t, "undo", theirs(h.files(t)), before)
	if text, ok := h.files(t)[".config/weir/weir.yaml"]; ok {
		t.Errorf("undo left weir.yaml:\n%s", text)
	}
	if list := h.weir(t, "secret", "ls", "--json").want(t, exitOK).stdout; strings.TrimSpace(list) != "[]" {
		t.Errorf("undo left secrets: %s", list)
	}
}

// registryOf is an MCP Registry with one server, whose ID contains "echo".
func registryOf(t *testing.T, server func() string) *httptest.Server {
	t.Helper()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v0.1/servers":
			fmt.Fprintf(w, `{"servers":[{"server":%s,"_meta":{}}],"metadata":{"count":1}}`, server())
		case strings.Contains(r.URL.Path, "echo"):
			fmt.Fprintf(w, `{"server":%s,"_meta":{}}`, server())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(registry.Close)
	return registry
}

// TestAddFromTheRegistry adds a server with a secret from a registry's stored answers.
func TestAddFromTheRegistry(t *testing.T) {
	t.Parallel()
	needsShell(t)
	const server = `{"name":"io.github.me/echo","description":"says it again","version":"1.0.0","packages":[{"registryType":"npm","identifier":"echo-mcp",` +
		`"version":"1.0.0","transport":{"type":"stdio"},"environmentVariables":[{"name":"ECHO_TOKEN","isRequired":true,"isSecret":true}]}]}`
	registry := registryOf(t, func() string { return server })
	h := newHome(t)
	h.installed(t, "npx")
	h.weir(t, "add", "io.github.me/nothing", "--registry", registry.URL).want(t, exitUsage, "no such server")
	h.weir(t, "add", "say again", "--registry", registry.URL).want(t, exitUsage, "io.github.me/echo", "by its ID")
	h.weir(t, "add", "io.github.me/echo", "--yes", "--registry", registry.URL).want(t, exitUsage, "--env")
	f := h.weir(t, "add", "io.github.me/echo", "--yes", "--registry", registry.URL, "--env", "ECHO_TOKEN=abcdefgh12345678").want(t, exitOK, "✓ echo")
	conf := h.files(t)[".config/weir/weir.yaml"]
	if !strings.Contains(conf, "echo-mcp@1.0.0") || !strings.Contains(conf, "${secret:") || strings.Contains(conf+f.stdout+f.stderr, "abcdefgh12345678") {
		t.Errorf("weir.yaml:\n%s\n%s%s", conf, f.stdout, f.stderr)
	}
	h.weir(t, "undo", "--yes").want(t, exitOK)
	if _, ok := h.files(t)[".config/weir/weir.yaml"]; ok {
		t.Error("undo left weir.yaml")
	}

	h.write(t, ".config/weir/weir.yaml", "registry: {url: "+registry.URL+"/} # ours\nmcpServers:\n  asks: {command: x, args: [\"${input:unasked}\"]}\n")
	h.weir(t, "add", "io.github.me/echo", "--yes", "--no-start", "--set", "ECHO_TOKEN=abcdefgh12345678").want(t, exitOK, registry.URL, "done  echo")
	h.weir(t, "add", "io.github.me/other", "--registry", "http://127.0.0.1:1").want(t, exitUnavailable, "127.0.0.1:1")
	h.write(t, ".config/weir/weir.yaml", "registry: {url: ftp://x}\n")
	h.weir(t, "add", "io.github.me/echo", "--yes").want(t, exitUsage, "weir.yaml:1", "registry.url", "https://")
}
