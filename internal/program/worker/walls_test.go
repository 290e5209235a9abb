//go:build linux

package worker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-mcp/weir/internal/program/wire"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "escape" {
		escape(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	leak.Main(m)
}

// escape is a worker that an attacker has taken over: it runs native code behind the walls, and says which of its
// tries came to something.
func escape(file, tcp, socket string) {
	standing := confine()
	if err := limit(wire.Begin{Memory: 16 << 20, Millis: 1000}); err != nil {
		fmt.Println("limit:", err)
	}
	parent := os.Getppid()
	dial := func(network, address string) func() error {
		return func() error { _, err := net.DialTimeout(network, address, time.Second); return err }
	}
	open := func(path string, flags int) func() error {
		return func() error { _, err := os.OpenFile(path, flags, 0o600); return err }
	}
	for name, try := range map[string]func() error{
		"read a file":            open(file, os.O_RDONLY),
		"write a file":           open(file, os.O_WRONLY),
		"make a file":            open(file+".new", os.O_CREATE|os.O_WRONLY),
		"read /etc/passwd":       open("/etc/passwd", os.O_RDONLY),
		"read own environment":   open("/proc/self/environ", os.O_RDONLY),
		"read weir's":            open(fmt.Sprintf("/proc/%d/environ", parent), os.O_RDONLY),
		"read weir's memory":     open(fmt.Sprintf("/proc/%d/mem", parent), os.O_RDWR),
		"list a folder":          func() error { _, err := os.ReadDir(filepath.Dir(file)); return err },
		"remove a file":          func() error { return os.Remove(file) },
		"rename a file":          func() error { return os.Rename(file, file+".old") },
		"link a file":            func() error { return os.Link(file, file+".link") },
		"truncate a file":        func() error { return os.Truncate(file, 0) },
		"make a folder":          func() error { return os.Mkdir(file+".d", 0o700) },
		"connect by TCP":         dial("tcp", tcp),
		"connect by UDP":         dial("udp", tcp),
		"connect a unix socket":  dial("unix", socket),
		"listen":                 func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
		"make a pipe":            func() error { _, _, err := os.Pipe(); return err },
		"make a memory file":     func() error { _, err := unix.MemfdCreate("x", 0); return err },
		"copy a descriptor":      func() error { _, err := unix.Dup(0); return err },
		"run a program":          func() error { return exec.Command("/bin/true").Run() },
		"become a program":       func() error { return unix.Exec("/bin/true", []string{"true"}, nil) },
		"trace weir":             func() error { return unix.PtraceAttach(parent) },
		"lift a limit":           func() error { return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 100}) },
		"lift a limit of memory": func() error { return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 62, Max: 1 << 62}) },
		"limit weir":             func() error { return unix.Prlimit(parent, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil) },
		"read weir by a call": func() error {
			buf := make([]byte, 8)
			_, err := unix.ProcessVMReadv(parent, []unix.Iovec{{Base: &buf[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			return err
		},
		"take 1 GB": func() error {
			if shadow > 0 {
				return errors.ErrUnsupported // the race detector takes more
			}
			_, err := unix.Mmap(-1, 0, 1<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			return err
		},
		"mount":                   func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
		"chroot":                  func() error { return unix.Chroot("/") },
		"namespaces":              func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		"get rights":              func() error { return unix.Setuid(12345) },
		"signal weir":             func() error { return unix.Kill(parent, unix.SIGURG) },
		"signal a thread of weir": func() error { return unix.Tgkill(parent, parent, unix.SIGURG) },
		"a socket of packets":     func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); return err },
		"share memory":            func() error { _, err := unix.SysvShmGet(1, 4096, unix.IPC_CREAT|0o600); return err },
		"fork": func() error {
			pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
			if pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
			}
			if errno != 0 {
				return errno
			}
			return nil
		},
	} {
		if err := try(); err == nil {
			fmt.Println("escaped:", name)
		}
	}
	if n := len(os.Environ()); n > 0 {
		fmt.Println("escaped: an environment of", n)
	}
	fmt.Println("walls:", strings.Join(standing, ", "))
}

// TestWalls: native code in a worker reaches no file, no network, no other process and no more memory.
func TestWalls(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	worker := exec.Command("/proc/self/exe", "escape", file, tcp.Addr().String(), socket.Addr().String())
	worker.Env = []string{}
	out, err := worker.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(string(out), "escaped") || !strings.Contains(string(out), "system calls") {
		t.Errorf("behind the walls:\n%s", out)
	}
	t.Logf("%s", out)
	// The process can take away only what it has itself.
	if text, err := os.ReadFile(file); err != nil || string(text) != "secret" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
