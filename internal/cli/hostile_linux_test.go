package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestHostileServerBehindAGateway: an agent's calls at /mcp have a hostile server try the machine. It gets its entry, also after
// a restart and a reload, and the audit log has its hosts.
func TestHostileServerBehindAGateway(t *testing.T) {
	t.Parallel()
	if !confinesHere() {
		t.Skip("this machine confines no programs")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &aHome{dir: t.TempDir()}
	for _, name := range []string{".ssh/id_ed25519", "work/file", "other/file"} {
		h.write(t, name, "secret of "+name)
	}
	var hosts []string
	for range 2 {
		web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(web.Close)
		hosts = append(hosts, web.Listener.Addr().String())
	}
	conf := fmt.Sprintf(`audit: {dir: audit}
mcpServers:
  evil: {command: %q, args: [%s], cwd: work, sandbox: auto}
  netted:
    command: %[1]q
    args: [%[2]s]
    env: {OWN: "${env:OWN_SECRET}"}
    sandbox: {net: [%[3]q]}
`, self, hostileArgument, hosts[0])
	h.write(t, "weir.yaml", conf)
	path := filepath.Join(h.dir, "weir.yaml")
	s := startWith(t, []string{"HOME=" + h.dir, "XDG_STATE_HOME=" + h.dir + "/state", "OWN_SECRET=own-1234", "OTHER_SECRET=other-5678", "GORACE=atexit_sleep_ms=0"},
		path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	client, ids := httpClient(t), map[string]string{"evil": s.tool("evil:attack"), "netted": s.tool("netted:attack")}
	attack := func(server, do, with string) string {
		t.Helper()
		args := map[string]string{"do": do, "with": with}
		_, text, err := post(t.Context(), client, s.url, "tool_execute", modernCall(1, "tool_execute", map[string]any{"tool_id": ids[server], "args": args}))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	check := func(when string) {
		t.Helper()
		for _, one := range []struct{ server, do, with, want string }{
			{"evil", "read", h.dir + "/.ssh/id_ed25519", "held"},
			{"evil", "read", h.dir + "/other/file", "held"},
			{"evil", "write", h.dir + "/.bashrc", "held"},
			{"evil", "read", path, "held"},
			{"evil", "read", fmt.Sprintf("/proc/%d/environ", s.cmd.Process.Pid), "held"},
			{"evil", "folder", "", "done: " + h.dir + "/work"},
			{"evil", "read", "file", "done: secret of work/file"},
			{"evil", "write", "new", "done"},
			{"netted", "fetch", "http://" + hosts[0], "done"},
			{"netted", "fetch", "http://" + hosts[1], "held: 403"},
			{"netted", "connect", hosts[0], "held"},
			{"netted", "connect", hosts[1], "held"},
			{"netted", "read", h.dir + "/work/file", "held"},
		} {
			if got := attack(one.server, one.do, one.with); !strings.Contains(got, one.want) {
				t.Errorf("%s: %s: %s %s: %s, want %s", when, one.server, one.do, one.with, got, one.want)
			}
		}
	}
	check("at first")
	for server, own := range map[string]bool{"evil": false, "netted": true} {
		env := attack(server, "environment", "")
		if strings.Contains(env, "own-1234") != own || strings.Contains(env, "other-5678") || !strings.Contains(env, "done: ") {
			t.Errorf("the environment of %s: %s", server, env)
		}
	}
	attack("evil", "die", "")
	s.await("it starts again", func(g gateway.Health) bool {
		list := g.List()
		return len(list) == 2 && list[0].State == "ready" && list[0].Restarts > 0
	})
	check("after a restart")

	h.write(t, "weir.yaml", strings.Replace(conf, hosts[0], hosts[1], 1)) // weir reads it again by itself
	hosts[0], hosts[1] = hosts[1], hosts[0]
	for end := time.Now().Add(20 * time.Second); !strings.Contains(attack("netted", "fetch", "http://"+hosts[0]), "done"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the reload has changed no host")
		}
	}
	check("after a reload")
	s.end(syscall.SIGTERM)
	records := auditLines(t, filepath.Join(h.dir, "audit"))
	for _, decision := range []string{"allow", "deny"} {
		if !slices.ContainsFunc(records, func(r map[string]any) bool { return has(r, "kind=network", "server=netted", "decision="+decision) }) {
			t.Errorf("no record of a host with the decision %s: %v", decision, records)
		}
	}
}
