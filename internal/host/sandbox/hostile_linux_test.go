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
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-mcp/weir/internal/host/sandbox"
	"github.com/weir-mcp/weir/internal/testkit/podmantest"
)

// open are the tries that a way does not hold. docs/sandbox.md has the same table.
var open = map[sandbox.Way][]string{
	sandbox.Container:  {"listen on a port for others"}, // of its own network
	sandbox.Bubblewrap: {"listen on a port for others"}, // of its own network
	sandbox.Landlock: {
		"see the size of a file whose path it knows", "change the mode of a file whose path it knows", // the kernel asks Landlock for neither
		"leave its session and live on", // it stays in its walls
	},
}

// unsure are tries that the machine itself may refuse without a sandbox, or suffers from, or that need a network.
var unsure = []string{
	"load a program into the kernel (bpf)", "open a raw socket", "read a key of the user's keyring", "start 20,000 processes",
	"ask the resolver of /etc/resolv.conf by UDP", "ask the resolver of /etc/resolv.conf by TCP", "ask 8.8.8.8 by UDP", "ask 8.8.8.8 by TCP",
	"reach the metadata of a cloud", "reach the metadata of a cloud, by the proxy",
}

// victims makes a machine of a user with things that a hostile server wants. known makes them again where a try has changed
// them.
func victims(t *testing.T) (home string, known func() facts) {
	dir, err := os.MkdirTemp(os.Getenv("HOME"), "user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home = filepath.Join(dir, "home")
	write := func(name, text string) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".config/chromium/Default/Cookies", ".local/state/weir/store.db", "state/other/token", "run/x"} {
		write(name, "secret")
	}
	victim := exec.Command("/bin/sleep", "600")
	victim.Env, victim.Dir = []string{"SECRET=hunter2"}, home
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	memory, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(memory, unix.IPC_RMID, nil) })
	f := facts{Home: home, State: filepath.Join(home, "state"), Run: filepath.Join(home, "run"), Victim: fmt.Sprint(victim.Process.Pid), Weir: fmt.Sprint(os.Getpid()), Memory: memory, Abstract: fmt.Sprintf("weir-test-%d", os.Getpid()), Named: "named.example"}
	for _, at := range []string{f.Run + "/docker.sock", f.Run + "/bus", f.Run + "/keyring", f.Run + "/agent", "@" + f.Abstract} {
		l, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(web.Close)
	f.Host, f.DNS = web.Listener.Addr().String(), resolver(t)
	return home, func() facts {
		for _, name := range []string{"notes", "swapped", "doomed", ".ssh/config"} {
			write(name, name)
		}
		return f
	}
}

// resolver answers each query with itself, by UDP and by TCP, at one address.
func resolver(t *testing.T) (address string) {
	var streams net.Listener
	var packets net.PacketConn
	for packets == nil { // until a port is free for both
		var err error
		if streams, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if packets, err = net.ListenPacket("udp", streams.Addr().String()); err != nil {
			streams.Close()
		}
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buffer[:n], from)
		}
	})
	tasks.Go(func() {
		for {
			c, err := streams.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 512)
			n, _ := c.Read(buffer)
			_, _ = c.Write(buffer[:n])
			c.Close()
		}
	})
	t.Cleanup(func() { streams.Close(); packets.Close(); tasks.Wait() })
	return streams.Addr().String()
}

// TestHostileServer tries everything under each way that this machine has without a container engine. Without a sandbox
// everything succeeds, which shows that each try is one.
func TestHostileServer(t *testing.T) {
	for _, way := range append(ways(t), sandbox.None) {
		t.Run(string(way), func(t *testing.T) {
			tryAll(t, way, os.LookupEnv, sandbox.Program{Path: self(t), Env: []string{"PATH=/usr/bin:/bin"}}, sandbox.Spec{})
		})
	}
}

// containers is the test that needs a container engine. Where the tests are run by root, this one is as well: podman starts
// no containers for users that the machine does not know.
const containers = "TestHostileServerInAContainer"

// TestHostileServerInAContainer tries the same in a container of podman, with the programs that the tries use as volumes.
func TestHostileServerInAContainer(t *testing.T) {
	image, environ := podmantest.Image(t, os.Environ(), "try", "")
	lookup := func(name string) (string, bool) {
		for _, pair := range environ {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	tryAll(t, sandbox.Container, lookup, sandbox.Program{Path: podmantest.Server, Env: []string{"PATH=/usr/bin:/bin"}}, sandbox.Spec{Image: image, Read: append([]string{"/bin", "/usr/bin"}, podmantest.Libraries...)})
}

// tryAll runs a program with all tries in a way, and checks how they end.
func tryAll(t *testing.T, way sandbox.Way, lookup func(string) (string, bool), p sandbox.Program, s sandbox.Spec) {
	t.Helper()
	home, known := victims(t)
	m := sandbox.New(sandbox.Options{Lookup: func(name string) (string, bool) {
		if name == "HOME" && way != sandbox.Container { // an engine has its images there
			return home, true
		}
		return lookup(name)
	}, State: filepath.Join(home, "state"), Ways: []sandbox.Way{way}})
	var names []string
	for _, one := range tries {
		if way != sandbox.None || !slices.Contains(unsure, one.name) {
			names = append(names, one.name)
		}
	}
	f := known()
	p.Name, p.Args, p.Env = "evil", []string{"try", strings.Join(names, ";")}, append(p.Env, "HOME="+home, "XDG_STATE_HOME="+home+"/.local/state", "GORACE=atexit_sleep_ms=0", f.variable())
	s.Net, s.Memory = []string{f.Named}, 2<<30
	printed, _ := start(t, m, p, s)
	results := map[string]string{}
	for line := range strings.Lines(printed) {
		name, answer, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name == "leave its session and live on" && answer == "open" && !survived(filepath.Join(home, "state", "evil", "survivor"), filepath.Join(home, "survivor")) {
			answer = "held: it has ended with the server"
		}
		results[name] = answer
	}
	for _, name := range names {
		want := "held"
		if way == sandbox.None || slices.Contains(open[way], name) {
			want = "open"
		}
		if !strings.HasPrefix(results[name], want) {
			t.Errorf("%s: %s: %q, want %s", way, name, results[name], want)
		}
	}
	if way != sandbox.None {
		checkTable(t, way, results)
	}
}

// columns are the ways in the table of docs/sandbox.md, in its order.
var columns = []sandbox.Way{sandbox.Landlock, sandbox.Bubblewrap, sandbox.Container}

// checkTable checks the column of a way in the table of docs/sandbox.md against what was found.
func checkTable(t *testing.T, way sandbox.Way, results map[string]string) {
	t.Helper()
	page := os.Getenv(docsVariable)
	if page == "" {
		text, err := os.ReadFile(docs)
		if err != nil {
			t.Fatal(err)
		}
		page = string(text)
	}
	const head = "| a hostile server tries to | Landlock | bubblewrap | container |\n| --- | --- | --- | --- |\n"
	_, table, _ := strings.Cut(page, head)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	at := slices.Index(columns, way)
	var want strings.Builder
	want.WriteString(head)
	differs := len(rows) != len(tries)
	for i, one := range tries {
		cells := []string{"?", "?", "?"}
		if i < len(rows) {
			if had := strings.Split(strings.Trim(rows[i], "| "), " | "); len(had) == 4 && had[0] == one.name {
				copy(cells, had[1:])
			} else {
				differs = true
			}
		}
		found, _, _ := strings.Cut(results[one.name], ":")
		differs = differs || cells[at] != found
		cells[at] = found
		fmt.Fprintf(&want, "| %s | %s |\n", one.name, strings.Join(cells, " | "))
	}
	if differs {
		t.Errorf("docs/sandbox.md has another table than what was found for %s:\n%s", way, want.String())
	}
}

// survived reports whether a process writes one of the files after its server has ended. It ends by itself.
func survived(files ...string) bool {
	for range 12 {
		if slices.ContainsFunc(files, func(file string) bool { _, err := os.Stat(file); return err == nil }) {
			return true
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
