package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"github.com/weir-mcp/weir/internal/host/confine"
)

// between is a process between weir and the program of a server: it carries connections, or becomes a program that is
// watched. It returns with the exit code of the program.
func between(w confine.Walls, command []string) int {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return w.Refuse(err)
	}
	if w.Watch != "" {
		return w.Refuse(watched(w.Watch, path, command))
	}
	return carry(w, path, command)
}

// carry starts the program as a child in its walls, and carries its connections to Walls.Port to the socket Walls.Carry.
// It returns with the exit code of the program.
func carry(w confine.Walls, path string, command []string) int {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.Port))
	if err != nil {
		return w.Refuse(err)
	}
	inner := w
	inner.Carry = ""
	executable, err := os.Executable()
	if err != nil {
		return w.Refuse(err)
	}
	c := exec.Command(executable, inner.Arguments(path, command[1:]...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return w.Refuse(err)
	}
	_ = os.Stdin.Close() // the child has it
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = c.Process.Signal(s)
		}
	}()
	go accept(l, w.Carry)
	err = c.Wait()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended) && ended.ExitCode() >= 0:
		return ended.ExitCode()
	}
	return 128 + int(syscall.SIGKILL)
}

// maxCarried bounds the connections that are carried at once.
const maxCarried = 512

func accept(l net.Listener, to string) {
	slots := make(chan struct{}, maxCarried)
	for {
		from, err := l.Accept()
		if err != nil {
			return // the process ends
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			defer from.Close()
			out, err := (&net.Dialer{}).DialContext(context.Background(), "unix", to)
			if err != nil {
				return
			}
			defer out.Close()
			join(from.(*net.TCPConn), out.(*net.UnixConn))
		}()
	}
}

// join copies both ways until both have ended.
func join(a *net.TCPConn, b *net.UnixConn) {
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(b, a); _ = b.CloseWrite() })
	both.Go(func() { _, _ = io.Copy(a, b); _ = a.CloseWrite() })
	both.Wait()
}
