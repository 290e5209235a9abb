package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/setup/doctor"
)

// examined runs weir doctor --json and returns its findings by thing.
func examined(t *testing.T, code int, args ...string) map[string][]doctor.Finding {
	t.Helper()
	r := weir(t, args...).want(t, code)
	var list []doctor.Finding
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatalf("%v in %s\n%s", err, r.stdout, r.stderr)
	}
	byThing := map[string][]doctor.Finding{}
	for _, f := range list {
		byThing[f.Thing] = append(byThing[f.Thing], f)
	}
	return byThing
}

// TestDoctor: servers that fail in real ways are told apart, and a report comes in time though one
// of them is silent.
func TestDoctor(t *testing.T) {
	t.Parallel()
	needsShell(t)
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(denied.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	home := t.TempDir()
	conf := filepath.Join(home, "weir.yaml")
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
mcpServers:
  good: {command: %q, args: [demo, notes]}
  ends: {command: sh, args: [-c, "for i in 1 2 3; do echo line $i >&2; done; echo API_KEY is missing >&2; exit 3"]}
  noisy: {command: sh, args: [-c, "echo Server running on stdio; exit 1"]}
  chatty: {command: sh, args: [-c, "echo hello; exec %s demo notes"]}
  silent: {command: sleep, args: ["60"]}
  absent: {command: no-such-program}
  folder: {command: sh, cwd: /no/such/folder}
  denied: {url: %q}
  secure: {url: %q}
  gone: {url: %q}
  unset: {command: sh, env: {A: "${env:NO_SUCH_VARIABLE}"}}
`, weirBin, weirBin, denied.URL, secure.URL, gone.URL)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(home, "config")}
	began := time.Now()
	found := examined(t, exitTool, append(env, "doctor", "--json", "--config", conf)...)
	if took := time.Since(began); took > 15*time.Second { // 5 s for the report, 4 s to end servers, and other tests
		t.Errorf("it took %s", took)
	}
	for name, want := range map[string]string{
		"good": "server-ok", "ends": "server-exit", "noisy": "server-noise", "chatty": "server-noise", "silent": "server-starting",
		"absent": "runtime-missing", "folder": "server-start", "denied": "server-unauthorized", "secure": "server-tls", "gone": "server-unreachable",
		"unset": "config-server",
	} {
		var ids []string
		for _, f := range found["server "+name] {
			ids = append(ids, f.ID)
		}
		if !slices.Contains(ids, want) || len(ids) > 1 && name != "chatty" {
			t.Errorf("%s: %v, want %s: %+v", name, ids, want, found["server "+name])
		}
	}
	for _, f := range found["server ends"] {
		if f.ID == "server-exit" && strings.Join(f.Lines, "|") != "line 1|line 2|line 3|API_KEY is missing" {
			t.Errorf("last lines: %q", f.Lines)
		}
	}

	only := examined(t, exitOK, append(env, "doctor", "good", "--json", "--config", conf)...)
	if len(only["server good"]) != 1 {
		t.Errorf("only good: %+v", only)
	}
	for thing, list := range only { // the line of the sandboxes names the servers that were asked for, and no other
		if thing != "server good" && (thing != "sandboxes" || len(list) != 1 || !strings.HasSuffix(list[0].Text, "good: as you, without a sandbox; sandbox: auto confines it")) {
			t.Errorf("only good: %s: %+v", thing, list)
		}
	}
	weir(t, append(env, "doctor", "nothing", "--config", conf)...).want(t, exitUsage)
}

// TestDoctorRunning: the gateway that runs is asked, and no server is started a second time.
func TestDoctorRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "listen: 127.0.0.1:0\nmcpServers:\n  notes: {command: %q, args: [demo, notes]}\n", weirBin), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, conf, "serve", "--config", conf)
	found := examined(t, exitOK, "doctor", "notes", "--json", "--config", conf)
	if len(found["server notes"]) != 1 || found["server notes"][0].ID != "server-ok" {
		t.Errorf("%+v", found)
	}
	found = examined(t, exitOK, "doctor", "--json", "--config", conf)
	ok := false
	for _, list := range found {
		for _, f := range list {
			ok = ok || f.ID == "gateway-ok" && strings.Contains(f.Text, "answers")
		}
	}
	if !ok {
		t.Errorf("the gateway was not found: %+v", found)
	}
}

// TestDoctorRunningOutput: a finding about a server of the gateway that runs has what its program wrote,
// once.
func TestDoctorRunningOutput(t *testing.T) {
	t.Parallel()
	needsShell(t)
	s := serve(t, "mcpServers:\n  ends: {command: sh, args: [-c, 'echo line 1 >&2; echo line 2 >&2; exit 3']}\n")
	s.await("the server has failed", func(h gateway.Health) bool { return h.Upstreams["ends"].Error != "" })
	found := examined(t, exitTool, "doctor", "ends", "--json", "--config", s.config)["server ends"]
	if len(found) != 1 || strings.Join(found[0].Lines, "|") != "line 1|line 2" {
		t.Errorf("%+v", found)
	}
}

// TestDoctorFix: rights of a file with a secret are mended after they were shown.
func TestDoctorFix(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	home := t.TempDir()
	conf := filepath.Join(home, "weir.yaml")
	const text = "listen: 127.0.0.1:0\nmcpServers:\n  a: {command: sh, disabled: true}\nauth: {}\n"
	if err := os.WriteFile(conf, []byte(text+"inputs: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(home, "state", "weir", "gateways", "dead.json")
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte(`{"instance":"x","url":"http://127.0.0.1:1/mcp"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(home, "config")}
	weir(t, append(env, "doctor", "--fix", "--config", conf)...).want(t, exitOK, "fix: remove "+record, "1 mended, 0 left")
	if _, err := os.Stat(record); err == nil {
		t.Error("the record is there")
	}
}
