package confine_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/confine"
)

func TestMain(m *testing.M) {
	confine.Run()
	if len(os.Args) == 3 && os.Args[1] == "dial" {
		os.Exit(dial(os.Args[2]))
	}
	os.Exit(m.Run())
}

// dial sends a line to a port of this machine and prints the answer.
func dial(port string) int {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	fmt.Fprintln(c, "hello")
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print(line)
	return 0
}

// everywhere are the files that any program needs.
var everywhere = []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"}

// become starts a program behind walls.
func become(t *testing.T, w confine.Walls, program string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := confine.Self()
	if err != nil {
		t.Fatal(err)
	}
	w.Name = "srv"
	return exec.Command(self, w.Arguments(program, args...)...)
}

func TestProgramBehindWalls(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"read", "write", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := confine.Walls{Read: append([]string{dir + "/read", dir + "/missing"}, everywhere...), Write: []string{dir + "/write"}}
	c := become(t, w, "/bin/sh", "-c", "cd "+dir+"; cat read; echo x > write && echo written; cat other; echo $VALUE; exit 7")
	c.Env = []string{"VALUE=kept", "PATH=/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 7 {
		t.Errorf("%v", err)
	}
	refused := "other: Permission denied\n"
	if confine.Landlock() == 0 {
		refused = "other\n"
	}
	for _, want := range []string{"readwritten\n", refused, "kept\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	for name, c := range map[string]*exec.Cmd{
		"no such program": become(t, confine.Walls{}, "/no/such/program"),
		"not readable":    become(t, confine.Walls{}, "/bin/true"),
	} {
		if confine.Landlock() == 0 && name == "not readable" {
			continue
		}
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), `the server "srv" is not started`) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// TestRootIsNoRoot: a program of root has no capability, and gets none from a program that it starts.
func TestRootIsNoRoot(t *testing.T) {
	out, err := become(t, confine.Walls{Read: append([]string{"/proc"}, everywhere...)}, "/bin/sh", "-c", "grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs' /proc/self/status").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if name == "NoNewPrivs" && value != "1" || strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "" && !(name == "CapBnd" && os.Getuid() != 0) {
			t.Errorf("%s", line)
		}
	}
}

// TestCarriedConnections: a program reaches a socket by a port, and its end and its signals are as if there was no process
// between.
func TestCarriedConnections(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = io.Copy(conn, io.LimitReader(conn, 6))
			conn.Close()
		}
		served <- err
	}()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := probe.Addr().(*net.TCPAddr).Port
	probe.Close()
	self, err := confine.Self()
	if err != nil {
		t.Fatal(err)
	}
	w := confine.Walls{Boxed: true, Offline: true, Port: port, Carry: socket, Read: append([]string{filepath.Dir(self)}, everywhere...)}
	out, err := become(t, w, self, "dial", fmt.Sprint(port)).CombinedOutput()
	if err != nil || string(out) != "hello\n" {
		t.Errorf("%v: %s", err, out)
	}
	l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	c := become(t, w, "/bin/sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
	printed, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(printed).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	var ended *exec.ExitError
	if err := c.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 5 {
		t.Errorf("after SIGTERM: %v", err)
	}
}
