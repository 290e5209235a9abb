package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/confine"
)

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

// TestCarriedConnections: a program reaches a socket by a port, and its end and its signals are as if there was no process
// between.
func TestCarriedConnections(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // a process that is built with the race detector sleeps at its end otherwise
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
	w := confine.Walls{Name: "srv", Boxed: true, Offline: true, Port: port, Carry: socket, Read: []string{filepath.Dir(self(t)), "/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"}}
	become := func(program string, args ...string) *exec.Cmd {
		return exec.Command(self(t), w.Arguments(program, args...)...)
	}
	out, err := become(self(t), "dial", fmt.Sprint(port)).CombinedOutput()
	if err != nil || string(out) != "hello\n" {
		t.Errorf("%v: %s", err, out)
	}
	l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	c := become("/bin/sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
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
