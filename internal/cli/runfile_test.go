package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"crypto/sha256"
	"encoding/hex"

	"github.com/weir-mcp/weir/internal/gateway"
)

// runFiles are the files in a folder of a test's own, which stands for
// XDG_STATE_HOME.
func runFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "weir", "gateways", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestCommandsFindTheirGateway: a shell command finds the gateway of its folder at
// any port, and starts nothing.
func TestCommandsFindTheirGateway(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	env := "XDG_STATE_HOME=" + state
	path := writeConfig(t, ".mcp.json", `{"mcpServers": {"one": {"command": "%FAKE%"}}}`)
	s := startWith(t, []string{env}, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	pid := s.await("one is listed", func(h gateway.Health) bool { return h.Upstreams["one"].Tools > 0 }).Upstreams["one"].Pid
	files := runFiles(t, state)
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	for file, want := range map[string]os.FileMode{files[0]: 0o600, filepath.Dir(files[0]): 0o700} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", file, info.Mode(), err, want)
		}
	}

	link := filepath.Join(t.TempDir(), "project")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(path), link} {
		f := weir(t, env, "@"+dir, "ls", "--json").want(t, exitOK)
		if list := decode[[]gateway.UpstreamHealth](t, f.stdout); len(list) != 1 || list[0].Pid != pid || f.stderr != "" {
			t.Errorf("in %s: %+v, stderr %q; want the server with pid %d", dir, list, f.stderr, pid)
		}
	}
	weir(t, env, "@"+filepath.Dir(path), "stats").want(t, exitOK, "SESSION")

	if _, code := s.end(syscall.SIGTERM); code != exitOK {
		t.Errorf("ended with %d", code)
	}
	if files := runFiles(t, state); len(files) != 0 {
		t.Errorf("left behind: %q", files)
	}
	weir(t, env, "trust", "--yes", path).want(t, exitOK)
	weir(t, env, "@"+filepath.Dir(path), "ls").want(t, exitOK, "starting 1 server of .mcp.json only for this command; weir serve keeps a gateway running")
	f := weir(t, env, "@"+filepath.Dir(path), "stats").want(t, exitUnavailable, "no gateway runs with this folder's configuration", "weir serve")
	if strings.Contains(f.stderr, "starting") {
		t.Errorf("stats started servers: %s", f.stderr)
	}
}

// TestStaleRunFile: what a gateway left that was killed is recognised, also where
// another one has its port now.
func TestStaleRunFile(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	env := "XDG_STATE_HOME=" + state
	path := writeConfig(t, ".mcp.json", `{"mcpServers": {"one": {"command": "%FAKE%"}}}`)
	s := startWith(t, []string{env}, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	s.end(syscall.SIGKILL)
	weir(t, env, "trust", "--yes", path).want(t, exitOK)
	files := runFiles(t, state)
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	weir(t, env, "@"+filepath.Dir(path), "ls").want(t, exitOK, "only for this command")
	if left := runFiles(t, state); len(left) != 0 {
		t.Errorf("the file of a gateway that was killed is still there: %q", left)
	}

	other := serve(t, "mcpServers: {two: {command: '%FAKE%'}}\n")
	data, err := json.Marshal(runFile{Instance: "another", PID: 1, URL: other.url, Config: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := weir(t, env, "@"+filepath.Dir(path), "ls").want(t, exitOK, "only for this command", "one"); strings.Contains(f.stdout, "two") {
		t.Errorf("another folder's gateway was asked: %s", f.stdout)
	}

	// A folder in which others may write is not believed.
	alive := startWith(t, []string{env}, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	alive.await("one is listed", func(h gateway.Health) bool { return h.Upstreams["one"].Tools > 0 })
	if err := os.Chmod(filepath.Join(state, "weir", "gateways"), 0o777); err != nil {
		t.Fatal(err)
	}
	weir(t, env, "@"+filepath.Dir(path), "ls").want(t, exitOK, "only for this command")
}

// TestRefusedTokenStartsNothing: a gateway that runs and does not take the token is
// named, and its servers are not started a second time.
func TestRefusedTokenStartsNothing(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	env := "XDG_STATE_HOME=" + state
	sum := sha256.Sum256([]byte("good"))
	path := writeConfig(t, "weir.yaml", "mcpServers: {one: {command: '%FAKE%'}}\nauth: {tokens: [{name: ann, sha256: "+hex.EncodeToString(sum[:])+"}]}\n")
	s := startWith(t, []string{env}, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	for token, want := range map[string]string{"": "set WEIR_TOKEN", "bad": "does not know this token"} {
		for _, command := range []string{"ls", "stats"} {
			f := weir(t, env, "WEIR_TOKEN="+token, "@"+filepath.Dir(path), command).want(t, exitRefused, want, s.url)
			if strings.Contains(f.stderr, "starting") || command == "ls" && !strings.Contains(f.stderr, "not started a second time") {
				t.Errorf("%s with the token %q: %s", command, token, f.stderr)
			}
		}
	}
	weir(t, env, "WEIR_TOKEN=good", "@"+filepath.Dir(path), "ls").want(t, exitOK, "one")
}

// TestOwnGatewayWritesNoEvents: events.file is the running gateway's.
func TestOwnGatewayWritesNoEvents(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	path := writeConfig(t, "weir.yaml", "mcpServers: {one: {command: '%FAKE%'}}\nevents: {file: "+events+"}\n")
	weir(t, "trust", "--yes", path).want(t, exitOK)
	weir(t, "@"+filepath.Dir(path), "search", "echo").want(t, exitOK, "one:echo")
	if data, err := os.ReadFile(events); err == nil {
		t.Errorf("written: %s", data)
	}
}
