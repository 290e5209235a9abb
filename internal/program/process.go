package program

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/program/wire"
)

// startTime is how long a worker may take until it is ready.
const startTime = 10 * time.Second

// A process is a worker of the Pool.
type process struct {
	cmd   *exec.Cmd
	group *child.Group
	in    *os.File // frames to the worker
	out   *os.File // frames of the worker
	r     *bufio.Reader
	hello wire.Hello
	// filtered says that the kernel refuses it system calls: it can start no process.
	filtered bool
	said     *tail
	gone     chan struct{} // closed when the process has ended

	writing sync.Mutex // guards the order of frames to the worker
}

// start starts a worker and waits until it is ready.
func (p *Pool) start(ctx context.Context) (*process, error) {
	if len(p.o.Command) == 0 {
		return nil, ErrNotSelf
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	defer theirOut.Close()
	w := &process{in: in, out: out, r: bufio.NewReaderSize(out, 16<<10), said: &tail{}, gone: make(chan struct{})}
	w.cmd = &exec.Cmd{
		Path: p.o.Command[0], Args: append([]string{"weir"}, p.o.Command[1:]...), Env: []string{}, Dir: "/",
		Stdin: theirIn, Stdout: theirOut, Stderr: w.said, WaitDelay: time.Second,
	}
	w.group, err = p.keeper.Start(func(attr *syscall.SysProcAttr) (int, error) {
		w.cmd.SysProcAttr = attr
		if err := w.cmd.Start(); err != nil {
			return 0, err
		}
		return w.cmd.Process.Pid, nil
	})
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, err
	}
	p.tasks.Go(w.reap)
	stop := context.AfterFunc(ctx, w.kill)
	err = w.greet()
	if !stop() || err != nil {
		w.kill()
		w.wait()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w%s", err, w.said.lastLine())
	}
	w.filtered = runtime.GOOS == "linux" && strings.Contains(strings.Join(w.hello.Walls, ", "), filterWall)
	p.tell.Do(func() { p.tellWalls(w.hello.Walls) })
	return w, nil
}

// tellWalls says what confines the workers of this machine.
func (p *Pool) tellWalls(walls []string) {
	all := strings.Join(walls, ", ")
	if runtime.GOOS == "linux" && (!strings.Contains(all, "Landlock") || !strings.Contains(all, filterWall)) {
		p.o.Log.Warn("the kernel does not confine the workers of programs as it should: they have Landlock and seccomp on Linux 5.13 and newer", "walls", all)
		return
	}
	p.o.Log.Info("programs run in workers of their own", "walls", all)
}

// greet reads the first frame of a worker.
func (w *process) greet() error {
	h, err := wire.Read(w.r, 0)
	if err != nil {
		return err
	}
	head := make([]byte, h.Head)
	if _, err := io.ReadFull(w.r, head); err != nil {
		return err
	}
	if err := json.Unmarshal(head, &w.hello); err != nil || h.Kind != wire.Ready || w.hello.Version != wire.Version {
		return fmt.Errorf("%w: it is not a worker of this version", wire.ErrFrame)
	}
	return nil
}

// filterWall is in the name of the wall of a worker for which the kernel filters system calls.
const filterWall = "system calls"

// write sends a frame.
func (w *process) write(kind wire.Kind, id uint32, head, body []byte) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	return wire.Write(w.in, kind, id, head, body)
}

// reap waits for the process, and for what it has started.
func (w *process) reap() {
	_ = w.cmd.Wait() // why it ended is in its state
	w.group.Reap()
	_, _ = w.in.Close(), w.out.SetReadDeadline(time.Now().Add(time.Second))
	close(w.gone)
}

func (w *process) hasEnded() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// kill ends the process at once. It does not wait.
func (w *process) kill() {
	if w.filtered {
		w.group.Kill()
		return
	}
	w.group.Signal(false)
}

// wait waits for the end of the process.
func (w *process) wait() {
	<-w.gone
	_ = w.out.Close()
}

// how says how the process ended, which it has.
func (w *process) how() string {
	state := w.cmd.ProcessState
	if name := child.SignalName(state); name != "" {
		return "signal: " + name
	}
	return state.String()
}

// A tail keeps the first bytes that a worker writes to its standard error: a crash of the runtime says first why.
type tail struct {
	mu   sync.Mutex // guards below
	text []byte
}

const tailSize = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), tailSize-len(t.text))]...)
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "?")
}

func (t *tail) lastLine() string {
	line, _, _ := strings.Cut(t.String(), "\n")
	if line == "" {
		return ""
	}
	return " (" + line + ")"
}
