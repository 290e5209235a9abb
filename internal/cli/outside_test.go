package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
)

// opScript acts like the command op of 1Password: the item is in the file token next to it.
const opScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 2
if [ "$1 $2" != "read op://a vault/crm" ]; then
	echo "[ERROR] no item $2
	a second line" >&2
	exit 1
fi
echo run >>runs
cat token
`

// TestOutsideSecrets: a token comes from a program and is fetched again when the server refuses it, a
// mounted key is followed, and no place tells one of them.
func TestOutsideSecrets(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the servers are shell scripts")
	}
	const first, second = "ops-letmein-0123456789", "ops-opensesame-9876543210"
	var valid atomic.Value
	valid.Store(first)
	answers := gossip(t).Config.Handler
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+valid.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answers.ServeHTTP(w, r)
	}))
	t.Cleanup(crm.Close)
	file := writeConfig(t, "weir.yaml", `
mcpServers:
  crm:
    url: `+crm.URL+`/mcp
    headers: {Authorization: "Bearer ${exec:./op read 'op://a vault/crm'}"}
  fake: {command: "%FAKE%", env: {KEY: "${file:key}"}}
  none: {command: "%FAKE%", env: {KEY: "${exec:./op read nothing}"}}
`)
	dir := filepath.Dir(file)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("op", opScript)
	write("token", first+"\n")
	write("key", "mounted-letmein-1\n")
	s := start(t, file, "serve", "--config", file, "--listen", "127.0.0.1:0")
	applied := func() int { return strings.Count(s.stderr.String(), "the configuration has changed and is applied") }
	h := s.await("crm and fake are ready", func(h gateway.Health) bool {
		return h.Upstreams["crm"].State == "ready" && h.Upstreams["fake"].State == "ready"
	})
	if got := h.Upstreams["none"].Error; !strings.Contains(got, "${exec:./op read nothing}: op failed (exit status 1): [ERROR] no item nothing") {
		t.Errorf("none is %q", got)
	}
	write("token", second+"\n")
	valid.Store(second)
	weir(t, "call", s.tool("crm:gossip"), "--url", s.url)
	s.await("the token is fetched again", func(h gateway.Health) bool { return applied() == 1 && h.Upstreams["crm"].State == "ready" })
	f := weir(t, "call", s.tool("crm:gossip"), "--url", s.url)
	if !strings.Contains(f.stdout+f.stderr, "URL /mcp") {
		t.Errorf("the call with the new token: %+v", f)
	}
	write("key", "mounted-letmein-2\n")
	s.await("the mounted key is applied", func(h gateway.Health) bool { return applied() == 2 && h.Upstreams["fake"].State == "ready" })
	for where, text := range map[string]string{"the log": s.stderr.String(), "config show": weir(t, "config", "show", "--config", file).stdout} {
		if strings.Contains(text, "letmein") || strings.Contains(text, second) {
			t.Errorf("%s tells a secret: %s", where, text)
		}
	}
	runs, err := os.ReadFile(filepath.Join(dir, "runs"))
	weir(t, "config", "check", file).want(t, exitOK)
	if again, _ := os.ReadFile(filepath.Join(dir, "runs")); err != nil || string(again) != string(runs) {
		t.Errorf("config check ran a program: %q, %q, %v", runs, again, err)
	}
}

// TestRunInput: the command of an input ends in time, and its complaint is one short line.
func TestRunInput(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the servers are shell scripts")
	}
	for script, want := range map[string]string{
		"printf 'a\n b\r\n\n'": "a\n b",
		"sleep 3 & echo later": "later",
		"sleep 3":              "error: sh did not end within 300ms",
		"echo out; echo why >&2; echo more >&2; exit 3":      "error: sh failed (exit status 3): why more",
		"head -c 70000 /dev/zero | tr '\\0' x":               "error: sh printed more than 64 KB",
		"head -c 9000000 /dev/zero | tr '\\0' y >&2; exit 1": "error: sh failed (exit status 1): yyy",
	} {
		timeout := limit
		if strings.Contains(want, "300ms") {
			timeout = 300 * time.Millisecond
		}
		got, err := runInput(t.Context(), config.Input{Command: "sh", Args: []string{"-c", script}}, timeout)
		if part, fails := strings.CutPrefix(want, "error: "); fails {
			if err == nil || !strings.HasPrefix(err.Error(), part) || len(err.Error()) > 2*maxComplaint {
				t.Errorf("%s: %q, %v, want %q", script, got, err, want)
			}
		} else if got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", script, got, err, want)
		}
	}
	if _, err := runInput(t.Context(), config.Input{Command: "weir-no-such-program"}, time.Second); err == nil || !strings.Contains(err.Error(), "weir-no-such-program failed: exec:") {
		t.Error(err)
	}
}
