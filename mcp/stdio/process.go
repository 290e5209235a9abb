package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
)

// Command says how to start a child process.
type Command struct {
	// Name is how errors call the child, such as `upstream "files"`.
	Name string
	// Path is the program. It is looked up in PATH of Env if it has no slash.
	Path string
	Args []string
	// Env is the whole environment of the child, as "key=value". The child inherits nothing.
	Env []string
	// Dir is the working directory; "" means the one of this process.
	Dir string
	// Grace is how long the child may take to end after its stdin was closed, and again after
	// SIGTERM. Zero means 2 s.
	Grace time.Duration
	// NoInput says that the child does not read its stdin and so does not notice that it was
	// closed: SIGTERM is sent at once.
	NoInput bool
	// Keeper starts the child and prevents it from outliving this process. Nil means a new Keeper.
	Keeper *child.Keeper
	// MaxMessage bounds a line of the child's stdout; zero means 256 MiB. MaxKey is the
	// name of the setting in errors, "" if there is none.
	MaxMessage int
	MaxKey     string
	// Room counts the bytes of messages on stdout; nil sets no bound.
	Room *memory.Account
	// Redact removes secrets from excerpts of stderr; may be nil.
	Redact func(string) string
	// Logger gets each line of stderr at debug level; nil discards.
	Logger *slog.Logger
	// Stderr gets the child's standard error, in pieces as they arrive and with secrets. It must not
	// block; its errors are ignored. Nil discards.
	Stderr io.Writer
	// Ended is called once, after the child has ended and its stderr is read. how is its exit status;
	// stopped is set if the Process was closed before. Nil is not called.
	Ended func(how string, stopped bool)
}

// stderrKept is the number of bytes of a child's stderr that are kept for error messages.
const stderrKept = 16 << 10

// Process is a running child as an mcp.Stream.
type Process struct {
	*Stream
	cmd    Command
	c      *exec.Cmd
	group  *child.Group
	stdin  io.WriteCloser
	stderr ring
	exited chan struct{} // closed when the child has ended and its stderr is read
	exit   error         // valid after exited

	readers  sync.WaitGroup
	stopOnce sync.Once
	stopping atomic.Bool
}

var _ mcp.Stream = (*Process)(nil)

// Start starts the child. The caller must Close the Process, even if the child has already ended.
func Start(cmd Command) (*Process, error) {
	if cmd.Grace == 0 {
		cmd.Grace = 2 * time.Second
	}
	if cmd.MaxMessage == 0 {
		cmd.MaxMessage = maxFromUpstream
	}
	if cmd.Logger == nil {
		cmd.Logger = slog.New(slog.DiscardHandler)
	}
	if cmd.Redact == nil {
		cmd.Redact = func(s string) string { return s }
	}
	path, err := child.Find(cmd.Path, cmd.Env)
	if err == nil {
		err = checkDir(cmd.Dir)
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: cannot start %q: %w", cmd.Name, cmd.Path, err)
	}
	keeper, closeKeeper := cmd.Keeper, func() {}
	if keeper == nil {
		keeper = new(child.Keeper)
		closeKeeper = keeper.Close
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	p.c = &exec.Cmd{Path: path, Args: append([]string{cmd.Path}, cmd.Args...), Env: cmd.Env, Dir: cmd.Dir}
	if p.c.Env == nil {
		p.c.Env = []string{} // nil would inherit the environment
	}
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("stdio: %w", err)
	}
	stderr, childErr, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stdio: %w", err), stdout.Close(), childOut.Close())
	}
	closeAll := func() {
		for _, f := range []*os.File{stdout, childOut, stderr, childErr} {
			_ = f.Close()
		}
	}
	p.c.Stdout, p.c.Stderr = childOut, childErr
	if p.stdin, err = p.c.StdinPipe(); err != nil {
		closeAll()
		return nil, fmt.Errorf("stdio: %w", err)
	}
	p.group, err = keeper.Start(func(attr *syscall.SysProcAttr) (int, error) {
		p.c.SysProcAttr = attr
		if err := p.c.Start(); err != nil {
			return 0, err
		}
		return p.c.Process.Pid, nil
	})
	if err != nil {
		closeAll()
		closeKeeper()
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: cannot start %q: %w", cmd.Name, cmd.Path, whyNot(path, cmd.Dir, err))
	}
	_, _ = childOut.Close(), childErr.Close()
	p.Stream = NewStream(stdout, p.stdin, cmd.MaxMessage, nil)
	p.Count(cmd.Room)
	p.child = true // the reason for a child's end says more than its last, incomplete message
	stderrRead := make(chan struct{})
	p.readers.Go(func() { defer close(stderrRead); p.readStderr(stderr) })
	p.readers.Go(func() {
		p.exit = p.c.Wait()
		stopped := p.stopping.Load()
		// Descendants must not survive the child.
		p.group.Reap()
		closeKeeper()
		// A grandchild in another process group may hold the pipes open. They are useless without
		// the child.
		deadline := time.Now().Add(time.Second)
		_, _ = stdout.SetReadDeadline(deadline), stderr.SetReadDeadline(deadline)
		<-stderrRead // so that the last lines are known
		if p.cmd.Ended != nil {
			p.cmd.Ended(p.how(), stopped)
		}
		close(p.exited)
	})
	p.close = func() error { p.stop(); p.readers.Wait(); return stdout.Close() }
	return p, nil
}

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.c.Process.Pid }

// Exited is closed when the child has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Read implements mcp.Stream. If the child has ended, the error says how and includes the last line
// of its stderr.
func (p *Process) Read() ([]byte, error) {
	line, block, err := p.ReadBlock()
	if err != nil || block == nil {
		return line, err
	}
	return open(block)
}

// ReadBlock is Read with the Block of a large message; see Stream.
func (p *Process) ReadBlock() ([]byte, *memory.Block, error) {
	line, block, err := p.Stream.ReadBlock()
	if err != nil {
		err = p.readError(err)
	}
	return line, block, err
}

// readError returns the reason for a failed read.
func (p *Process) readError(err error) error {
	switch k, _ := mcp.KindOf(err); {
	case k == mcp.KindTooLarge:
		text := ""
		if p.cmd.MaxKey != "" {
			text = "; raise " + p.cmd.MaxKey
		}
		return &mcp.Error{Kind: mcp.KindUpstreamProtocol, Message: p.cmd.Name + ": " + err.Error() + text, Err: err}
	case k == mcp.KindMemory:
		return &mcp.Error{Kind: k, Message: p.cmd.Name + ": " + err.Error(), Err: err}
	case errors.Is(err, errEndless):
		p.Kill()
		return &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Err: err,
			Message: fmt.Sprintf("%s wrote a line of more than %d bytes to its stdout and did not end it, so it is ended; messages of MCP are lines%s", p.cmd.Name, p.max, p.LastWords())}
	}
	select {
	case <-p.exited:
	case <-time.After(2 * time.Second):
		return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s closed its stdout%s", p.cmd.Name, p.LastWords())
	}
	return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s ended (%s)%s", p.cmd.Name, p.how(), p.LastWords())
}

// how returns the exit status of the child, which must have ended.
func (p *Process) how() string {
	if p.exit != nil {
		return p.exit.Error()
	}
	return "exit status 0"
}

// stop ends the child and everything in its group. It closes stdin, then sends SIGTERM, then
// SIGKILL, and waits the grace time after each; see Command.NoInput. It returns when the child has
// ended.
func (p *Process) stop() {
	p.stopOnce.Do(func() {
		p.stopping.Store(true)
		p.group.Look() // after its end, descendants that left its group cannot be found
		_ = p.stdin.Close()
		if !p.cmd.NoInput && p.wait(p.cmd.Grace) {
			return
		}
		p.group.Signal(true)
		if p.wait(p.cmd.Grace) {
			return
		}
		p.group.Signal(false)
	})
	<-p.exited
}

func (p *Process) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// Kill ends the child at once.
func (p *Process) Kill() { p.group.Signal(false) }

func (p *Process) readStderr(r io.ReadCloser) {
	defer r.Close()
	buf := make([]byte, 4096)
	var line []byte
	var pace child.Pace
	told := false
	for {
		n, err := r.Read(buf)
		if pace.Took(n) && !told {
			told = true
			p.cmd.Logger.Warn("a program floods its stderr, which is read at a bounded rate: the program waits when it writes more", "upstream", p.cmd.Name, "bytes_per_second", child.PaceRate)
		}
		p.stderr.write(buf[:n])
		if p.cmd.Stderr != nil && n > 0 {
			_, _ = p.cmd.Stderr.Write(buf[:n])
		}
		if p.cmd.Logger.Enabled(context.Background(), slog.LevelDebug) {
			for _, b := range buf[:n] {
				if b != '\n' && len(line) < 1024 {
					line = append(line, b)
				} else if b == '\n' {
					p.cmd.Logger.Debug("stderr", "upstream", p.cmd.Name, "line", p.cmd.Redact(string(line)))
					line = line[:0]
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// ring keeps the newest stderrKept bytes.
type ring struct {
	mu  sync.Mutex
	buf []byte
}

func (r *ring) write(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, b...)
	if over := len(r.buf) - stderrKept; over > 0 {
		r.buf = append(r.buf[:0], r.buf[over:]...)
	}
}

func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(bytes.ToValidUTF8(r.buf, []byte("?")))
}
