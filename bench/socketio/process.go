//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A server is a process under test.
type server struct {
	command *exec.Cmd
	address string
}

func startServer(ctx context.Context, o options, kind string, stderr io.Writer) (*server, error) {
	command := exec.CommandContext(ctx, o.node, "--expose-gc", filepath.Join(o.dir, "reference.mjs"))
	if kind == ours {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		command = exec.CommandContext(ctx, self, "-serve")
	}
	command.Stderr = stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = command.Process.Kill()
		_ = command.Wait()
		return nil, fmt.Errorf("%s said nothing (is interop/node_modules installed? node interop/setup.mjs): %w", kind, err)
	}
	return &server{command: command, address: strings.TrimPrefix(strings.TrimSpace(line), "http://")}, nil
}

// stop ends the process and waits for it.
func (s *server) stop() error {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(5*time.Second, func() { _ = s.command.Process.Kill() })
	defer timer.Stop()
	_ = s.command.Wait() // How it ended after a signal is no news.
	return nil
}

// ticks is how many parts of a second Linux counts CPU time in.
const ticks = 100

// cpu is the CPU time that the process has used.
func (s *server) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time is read from /proc: %w", err)
	}
	// The name may contain anything, but is in parentheses: fields are counted behind it.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("cannot read /proc/%d/stat", s.command.Process.Pid)
	}
	return time.Duration(user+system) * time.Second / ticks, nil
}

// settled is the private memory of the process when its connections have been idle for a moment and its garbage is collected.
// Buffers of a pool take two collections to go.
func (s *server) settled(ctx context.Context) (int, error) {
	for range 2 {
		if err := wait(ctx, time.Second); err != nil {
			return 0, err
		}
		if err := s.command.Process.Signal(syscall.SIGUSR2); err != nil {
			return 0, err
		}
	}
	if err := wait(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	return s.private()
}

// private is the memory in RAM that the process shares with no other, in bytes.
func (s *server) private() (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("private memory is read from /proc: %w", err)
	}
	sum := 0
	for line := range strings.Lines(string(data)) {
		var kilobytes int
		for _, name := range []string{"Private_Clean:", "Private_Dirty:"} {
			if _, err := fmt.Sscanf(line, name+" %d kB", &kilobytes); err == nil {
				sum += kilobytes << 10
			}
		}
	}
	return sum, nil
}

// raiseFileLimit lets the process, and those it starts, have as many connections as the system allows.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}
