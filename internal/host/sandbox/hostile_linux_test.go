package sandbox_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/sandbox"
)

// open are the tries that a way does not hold. docs/sandbox.md has the same table.
var open = map[sandbox.Way][]string{
	sandbox.Bubblewrap: {"listen on a port for others"}, // of its own network
	sandbox.Landlock:   {},
}

// machine is a user's machine with things that a hostile server wants.
func machine(t *testing.T) (home string, known func() []string) {
	home, err := os.MkdirTemp(os.Getenv("HOME"), "user-")
	if err != nil {
		t.Fatal(err)
	}
	home = filepath.Join(home, "home")
	write := func(name, text string) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	victim := exec.Command("/bin/sleep", "600")
	victim.Env, victim.Dir = []string{"SECRET=hunter2"}, home
	for _, name := range []string{".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".config/chromium/Default/Cookies", ".local/state/weir/store.db", "state/other/token"} {
		write(name, "secret")
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	listen := func(address string) {
		l, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	socket, abstract := filepath.Join(home, "docker.sock"), fmt.Sprintf("weir-test-%d", os.Getpid())
	listen(socket)
	listen("@" + abstract)
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(web.Close)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var echo sync.WaitGroup
	echo.Go(func() {
		buffer := make([]byte, 16)
		for {
			n, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buffer[:n], from)
		}
	})
	t.Cleanup(func() { udp.Close(); echo.Wait() })
	return home, func() []string {
		write("notes", "notes")
		write("doomed", "doomed")
		write(".ssh/config", "config")
		return []string{home, filepath.Join(home, "state"), fmt.Sprint(victim.Process.Pid), socket, abstract, web.Listener.Addr().String(), udp.LocalAddr().String(), "named.example"}
	}
}

// TestHostileServer tries everything under each way that this machine has. Without a sandbox everything succeeds, which shows
// that each try is one.
func TestHostileServer(t *testing.T) {
	home, known := machine(t)
	lookup := func(name string) (string, bool) { return map[string]string{"HOME": home}[name], name == "HOME" }
	for _, way := range []sandbox.Way{sandbox.None, sandbox.Landlock, sandbox.Bubblewrap} {
		m := sandbox.New(sandbox.Options{Lookup: lookup, State: filepath.Join(home, "state"), Ways: []sandbox.Way{way}})
		have := way == sandbox.None
		for _, one := range m.Abilities() {
			have = have || one.Way == way && one.Have
			if one.Way == way && !one.Have {
				t.Logf("this machine has no %s: %s", way, one.Note)
			}
		}
		if !have {
			continue
		}
		for _, one := range tries {
			t.Run(string(way)+"/"+one.name, func(t *testing.T) {
				if way == sandbox.None && (one.name == "load a program into the kernel (bpf)" || one.name == "open a raw socket" || one.name == "read a key of the user's keyring" || strings.HasPrefix(one.name, "start 20,000")) {
					return // the machine itself may refuse these, or suffers from them
				}
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				p := sandbox.Program{Name: "evil", Path: self, Args: []string{"try", one.name}, Env: []string{"HOME=" + home, "PATH=/usr/bin:/bin", factsVariable + "=|" + strings.Join(known(), "|")}}
				answer, ended := start(t, m, p, sandbox.Spec{Net: []string{"named.example"}, Memory: 2 << 30})
				want := "held"
				if way == sandbox.None || contains(open[way], one.name) || one.name == "leave its session and live on" {
					want = "open"
				}
				if !strings.HasPrefix(answer, want) {
					t.Errorf("%s, want %s", strings.TrimSpace(answer), want)
				}
				t.Log(strings.TrimSpace(answer))
				_ = ended
			})
		}
	}
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// start runs a program in its sandbox and returns what it prints.
func start(t *testing.T, m *sandbox.Machine, p sandbox.Program, s sandbox.Spec) (printed string, took time.Duration) {
	t.Helper()
	c, err := m.Confine(p, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.End()
	cmd := &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir}
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took = time.Since(begin)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out), took
}
