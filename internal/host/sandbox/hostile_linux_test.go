package sandbox_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/sandbox"
)

// open are the tries that a way does not hold. docs/sandbox.md has the same table.
var open = map[sandbox.Way][]string{
	sandbox.Bubblewrap: {"listen on a port for others"},   // of its own network
	sandbox.Landlock:   {"leave its session and live on"}, // it stays in its walls
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
	results := map[sandbox.Way]map[string]string{}
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
		results[way] = map[string]string{}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range tries {
			// The machine itself may refuse these without a sandbox, or suffers from them.
			if way == sandbox.None && (slices.Contains([]string{"load a program into the kernel (bpf)", "open a raw socket", "read a key of the user's keyring"}, one.name) || strings.HasPrefix(one.name, "start 20,000")) {
				continue
			}
			names = append(names, one.name)
		}
		p := sandbox.Program{Name: "evil", Path: self, Args: []string{"try", strings.Join(names, ";")}, Env: []string{"HOME=" + home, "PATH=/usr/bin:/bin", factsVariable + "=|" + strings.Join(known(), "|")}}
		printed, _ := start(t, m, p, sandbox.Spec{Net: []string{"named.example"}, Memory: 2 << 30})
		answers := map[string]string{}
		for line := range strings.Lines(printed) {
			name, answer, _ := strings.Cut(strings.TrimSpace(line), "\t")
			answers[name] = answer
		}
		for _, name := range names {
			answer, want := answers[name], "held"
			if way == sandbox.None || slices.Contains(open[way], name) {
				want = "open"
			}
			if name == "leave its session and live on" && answer == "open" && !survived(t, filepath.Join(home, "state", "evil", "survivor"), filepath.Join(home, "survivor")) {
				answer = "held: it has ended with the server"
			}
			if !strings.HasPrefix(answer, want) {
				t.Errorf("%s: %s: %q, want %s", way, name, answer, want)
			}
			results[way][name], _, _ = strings.Cut(answer, ":")
		}
	}
	if results[sandbox.Landlock] != nil && results[sandbox.Bubblewrap] != nil {
		checkTable(t, results)
	}
}

// checkTable checks the table of docs/sandbox.md against what was found.
func checkTable(t *testing.T, results map[sandbox.Way]map[string]string) {
	page := os.Getenv(docsVariable)
	if page == "" {
		text, err := os.ReadFile(docs)
		if err != nil {
			t.Fatal(err)
		}
		page = string(text)
	}
	var b strings.Builder
	b.WriteString("| a hostile server tries to | Landlock | bubblewrap |\n| --- | --- | --- |\n")
	for _, one := range tries {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", one.name, results[sandbox.Landlock][one.name], results[sandbox.Bubblewrap][one.name])
	}
	if !strings.Contains(page, b.String()) {
		t.Errorf("docs/sandbox.md has another table than what was found:\n%s", b.String())
	}
}

// survived reports whether a process has written its number into one of the files after its server has ended, and ends it.
func survived(t *testing.T, files ...string) bool {
	for range 30 {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if pid, perr := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && perr == nil {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				_ = os.Remove(file)
				return true
			}
		}
		time.Sleep(100 * time.Millisecond)
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
	begin := time.Now()
	return ran(t, c), time.Since(begin)
}

// ran runs a program to its end and returns what it prints.
func ran(t *testing.T, c *sandbox.Confined) string {
	t.Helper()
	defer c.End()
	// A process between that is built with the race detector sleeps for a second at its end otherwise.
	env := append(slices.Clone(c.Env), "GORACE=atexit_sleep_ms=0")
	out, err := (&exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: env, Dir: c.Dir}).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
