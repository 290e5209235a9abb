package clustertest

import (
	"os/exec"
	"sync"
	"syscall"
)

// maxLog bounds the kept part of the log of a process.
const maxLog = 256 << 10

// tail keeps the end of the written text.
type tail struct {
	mu  sync.Mutex // guards below
	buf []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - maxLog; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

// String returns the kept text.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// process is a program that is started again and again.
type process struct {
	log tail // standard error of all runs

	mu    sync.Mutex // guards below
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
	off   bool          // paused, or asked to end
	epoch int
}

// run starts a command.
func (p *process) run(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.off = cmd, ended, false
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return nil
}

// signal sends a signal and returns the channel that is closed when the process has ended.
func (p *process) signal(sig syscall.Signal) (ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	if p.cmd == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	p.off = sig != syscall.SIGCONT
	_ = p.cmd.Process.Signal(sig) // one that has ended is as the caller wants it
	return p.ended
}

// Kill ends the process at once, and waits for its end.
func (p *process) Kill() { <-p.signal(syscall.SIGKILL) }

// Pause stops the process where it is. The system keeps its connections and accepts more.
func (p *process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume continues a process after Pause.
func (p *process) Resume() { p.signal(syscall.SIGCONT) }

// PID returns the process' id.
func (p *process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Epoch counts the faults of the process, and says whether it runs: it was neither paused nor asked to end. A
// process whose epoch is the same before and after a request, and that runs, was there all the time.
func (p *process) Epoch() (epoch int, runs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.off {
		return p.epoch, false
	}
	select {
	case <-p.ended:
		return p.epoch, false
	default:
		return p.epoch, true
	}
}
