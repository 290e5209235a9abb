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

// collect asks the process to collect its garbage, and gives it time to.
func (s *server) collect(ctx context.Context) error {
	if err := s.command.Process.Signal(syscall.SIGUSR2); err != nil {
		return err
	}
	return wait(ctx, 2*time.Second)
}

// resident is the memory that the process has in RAM, in bytes.
func (s *server) resident() (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("memory is read from /proc: %w", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	return pages * os.Getpagesize(), err
}

// raiseFileLimit lets the process, and those it starts, have as many connections as the system allows.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}
