package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startTime bounds how long a process may take to say where it listens.
const startTime = 30 * time.Second

// process is a program that serves HTTP. It ends with its context; a caller that
// started it calls stop, which waits for that.
type process struct {
	name   string
	cmd    *exec.Cmd
	host   string
	stdin  io.Closer
	stdout io.Reader
	cancel context.CancelFunc
	stderr tail
	read   chan struct{} // closed when its stdout has ended
}

var address = regexp.MustCompile(`http://(127\.0\.0\.1:[0-9]+)`)

// launch runs a program. The caller reads p.stdout by drain.
func launch(ctx context.Context, name, program string, args ...string) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{name: name, cmd: exec.CommandContext(ctx, program, args...), cancel: cancel, read: make(chan struct{})}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 8 * time.Second // weir has 5 seconds for its end
	p.cmd.Stderr = &p.stderr
	endWithParent(p.cmd)
	var err error
	p.stdout, err = p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// drain reads the lines of stdout until it ends.
func (p *process) drain(line func([]byte)) {
	defer close(p.read)
	lines := bufio.NewScanner(p.stdout)
	for lines.Scan() {
		line(lines.Bytes())
	}
}

// start runs a program and waits for the first line of its stdout that has an
// address on loopback.
func start(ctx context.Context, name, program string, args ...string) (*process, error) {
	p, err := launch(ctx, name, program, args...)
	if err != nil {
		return nil, err
	}
	host := make(chan string, 1)
	go p.drain(func(line []byte) {
		if m := address.FindSubmatch(line); m != nil {
			select {
			case host <- string(m[1]):
			default: // the first is the one
			}
		}
	})
	timeout := time.NewTimer(startTime)
	defer timeout.Stop()
	select {
	case p.host = <-host:
		return p, nil
	case <-p.read:
		err = errors.New("it ended at once")
	case <-timeout.C:
		err = fmt.Errorf("it did not say within %v where it listens", startTime)
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.stop()
	return nil, fmt.Errorf("%s: %w\n%s", name, err, p.stderr.String())
}

// stop ends the process and waits until it has ended.
func (p *process) stop() {
	p.cancel()
	_ = p.stdin.Close()
	<-p.read
	_ = p.cmd.Wait() // it had to end: how it did does not matter
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
