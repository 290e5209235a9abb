package agentserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/redact"
)

const (
	// defaultMaxOutput bounds the stdout of a command.
	defaultMaxOutput = 10 << 20
	// termGrace is how long a command may take to end after SIGTERM.
	termGrace = 500 * time.Millisecond
	// drainGrace bounds the time for reading the pipes of an ended command. A process that left its
	// group may hold them open.
	drainGrace = 250 * time.Millisecond
	// pipeHolds is the number of bytes that a pipe holds without a reader.
	pipeHolds = 4 << 10
	// defaultPath is the PATH where the agent has none.
	defaultPath = "/usr/local/bin:/usr/bin:/bin"
	// lastWords bounds the part of stderr in a message.
	lastWords = 2000
)

// command is a program that is started for each execution:
//
//	stdin ◀── one line of JSON ── stdout ──▶ output, bounded ── stderr ──▶ log
//
// It runs in a process group of its own. The server ends the whole group when the command ends,
// takes too long, is cancelled, or exceeds its bounds of output or memory.
type command struct {
	path      string
	args      []string
	dir       string
	home      string // where a name that is not in PATH is looked for
	env       []string
	maxOutput int64
	maxMemory int64       // of the whole group, in bytes; 0 sets no limit
	secrets   *redact.Set // of args and env: not for callers
}

var _ runner = (*command)(nil)

// cleanEnv returns the whole environment of a command: PATH, HOME, LANG and the entry's own. The
// rest of the agent's environment is not passed on.
func cleanEnv(o *ConfigOptions, own map[string]string) []string {
	all := map[string]string{"PATH": defaultPath}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := o.lookup(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, own)
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// find returns the program's path.
func (c *command) find() (string, error) {
	if strings.ContainsRune(c.path, filepath.Separator) {
		return exec.LookPath(c.path)
	}
	for _, e := range c.env {
		path, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range append(filepath.SplitList(path), c.home) {
			if !filepath.IsAbs(dir) {
				continue
			}
			if full, err := exec.LookPath(filepath.Join(dir, c.path)); err == nil {
				return full, nil
			}
		}
		return "", fmt.Errorf("the command %q is not in PATH, nor beside the configuration; install it, or set command to its full path", c.path)
	}
	return "", fmt.Errorf("the command %q is not found: there is no PATH; set command to its full path", c.path)
}

// process is a running command.
type process struct {
	group  *child.Group
	mu     sync.Mutex // guards below
	gone   bool       // waited for
	reason string     // the server's reason to end it
}

// reasonContext is the reason if the context ended the process.
const reasonContext = "context"

// end ends the process, its group and its descendants. With gently it sends SIGTERM first.
func (p *process) end(reason string, gently bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	if p.reason == "" {
		p.reason = reason
	}
	p.group.Signal(gently)
}

// endReason returns the reason for which the server ended the process, or "".
func (p *process) endReason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// run implements runner.
func (c *command) run(ctx context.Context, call *Call) (output, error) {
	keeper := call.keeper
	if keeper == nil {
		keeper = new(child.Keeper)
		defer keeper.Close()
	}
	out, err := c.exec(ctx, keeper, call.line, call)
	if err != nil {
		return output{}, err
	}
	o := output{text: out}
	if trimmed := bytes.TrimSpace(out); rawjson.IsObject(trimmed) && rawjson.Valid(trimmed) == nil {
		o.json = trimmed
	}
	return o, nil
}

// exec runs the program with a line on its stdin and returns its stdout. The
// error is a *failure, or the context's.
func (c *command) exec(ctx context.Context, keeper *child.Keeper, stdin []byte, log io.Writer) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := c.find()
	if err != nil {
		return nil, &failure{message: err.Error(), exit: 127}
	}
	files, err := newPipes()
	if err != nil {
		return nil, err
	}
	// A short line fits the pipe before a process reads it.
	var writers sync.WaitGroup
	defer writers.Wait()
	if len(stdin) <= pipeHolds {
		_, _ = files.stdin.Write(stdin)
		_ = files.stdin.Close()
	}
	var proc *os.Process
	group, err := keeper.Start(func(attr *syscall.SysProcAttr) (pid int, err error) {
		proc, err = os.StartProcess(path, append([]string{c.path}, c.args...), &os.ProcAttr{
			Dir: c.dir, Env: c.env, Files: files.child[:], Sys: attr,
		})
		if err != nil {
			return 0, err
		}
		return proc.Pid, nil
	})
	files.closeChild()
	if err != nil {
		files.close()
		return nil, &failure{message: fmt.Sprintf("the command cannot be started: %v", err), exit: 126}
	}
	p := &process{group: group}
	if len(stdin) > pipeHolds {
		writers.Go(func() {
			_, _ = files.stdin.Write(stdin) // a command need not read it
			_ = files.stdin.Close()
		})
	}
	var kill *time.Timer
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		p.end(reasonContext, true)
		kill = time.AfterFunc(termGrace, func() { p.end(reasonContext, false) })
	})
	endWatch := c.watchMemory(p)

	var state *os.ProcessState
	var waitErr error
	var errTail tailBuffer
	var readers sync.WaitGroup
	readers.Go(func() {
		words := concealed(io.MultiWriter(&errTail, log), c.secrets)
		_, _ = io.Copy(words, files.stderr)
		words.flush()
	})
	readers.Go(func() {
		state, waitErr = proc.Wait()
		p.mu.Lock()
		p.gone = true
		p.mu.Unlock()
		// Descendants must not survive the command, nor occupy the place of the next.
		group.Reap()
		deadline := time.Now().Add(drainGrace)
		_, _ = files.stdout.SetReadDeadline(deadline), files.stderr.SetReadDeadline(deadline)
		_ = files.stdin.SetWriteDeadline(deadline)
	})
	maxOutput := c.maxOutput
	if maxOutput == 0 {
		maxOutput = defaultMaxOutput
	}
	out, over := readBounded(files.stdout, maxOutput)
	if over {
		p.end("output", false)
		_, _ = io.Copy(io.Discard, files.stdout)
	}
	readers.Wait()
	endWatch()
	if !stop() {
		<-ended
		kill.Stop()
	}
	files.close()
	if p.endReason() == reasonContext {
		return nil, ctx.Err()
	}
	if waitErr != nil {
		return nil, waitErr
	}
	return c.outcome(p, state, out, maxOutput, errTail.String())
}

// outcome returns the result of an ended command.
func (c *command) outcome(p *process, state *os.ProcessState, out []byte, maxOutput int64, stderr string) ([]byte, error) {
	reason := p.endReason()
	f := &failure{exit: state.ExitCode(), signal: child.SignalName(state), reason: reason, out: out}
	switch {
	case reason == "output":
		f.message = fmt.Sprintf("the command printed more than %d bytes, its limit, and was ended", maxOutput)
		f.out = nil
		return nil, f
	case reason == "memory":
		f.message = fmt.Sprintf("the command used more than %d bytes of memory, its limit, and was ended", c.maxMemory)
		return nil, f
	case state.Success():
		return out, nil
	}
	f.message = strings.TrimSpace(stderr)
	if f.message == "" {
		f.message = "the command failed: " + state.String()
	}
	return nil, f
}

// readBounded reads until the end, or until there is more than max.
func readBounded(r io.Reader, max int64) (out []byte, over bool) {
	buf := make([]byte, 0, 4096)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > max {
			return nil, true
		}
		if err != nil {
			return buf, false // the end, or the deadline after the process's
		}
	}
}

// tailBuffer keeps the newest bytes, for a message.
type tailBuffer struct{ b []byte }

// Write implements io.Writer.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-lastWords):]...)
	if over := len(t.b) - lastWords; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String returns them as valid UTF-8.
func (t *tailBuffer) String() string { return string(bytes.ToValidUTF8(t.b, []byte("\uFFFD"))) }

// pipes are the three standard streams of a command.
type pipes struct {
	child                 [3]*os.File
	stdin, stdout, stderr *os.File
}

func newPipes() (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.closeChild()
			p.close()
			p = nil
		}
	}()
	if p.child[0], p.stdin, err = os.Pipe(); err != nil {
		return p, err
	}
	if p.stdout, p.child[1], err = os.Pipe(); err != nil {
		return p, err
	}
	p.stderr, p.child[2], err = os.Pipe()
	return p, err
}

func (p *pipes) closeChild() {
	for _, f := range p.child {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// watchMemory ends the process when its group uses too much memory. The returned function stops the
// watch and waits for it.
func (c *command) watchMemory(p *process) (stop func()) {
	if c.maxMemory == 0 {
		return func() {}
	}
	p.group.LimitMemory(c.maxMemory)
	over := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(memoryInterval)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if p.group.Memory() > c.maxMemory {
				p.end("memory", false)
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(over); watcher.Wait() })
}

// memoryInterval is the time between two looks at the memory of a command with a limit.
const memoryInterval = 10 * time.Millisecond

// isFailure returns the failure in err.
func isFailure(err error) (*failure, bool) {
	var f *failure
	ok := errors.As(err, &f)
	return f, ok
}
