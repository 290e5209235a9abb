package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/text"
)

const (
	// outputTime is how long descendants of a program may hold its output open after its end.
	outputTime = 100 * time.Millisecond
	// maxSaid bounds the kept part of a program's standard error.
	maxSaid = 2 << 10
)

// program asks a program: one process for each question, which is its standard input.
type program struct{ Options }

// ask implements asker. Past the time of ctx, the process and its descendants are killed.
func (p *program) ask(ctx context.Context, question []byte) ([]byte, error) {
	path, err := exec.LookPath(p.Command[0])
	if err != nil {
		return nil, err
	}
	out, said := &clipped{room: maxAnswer + 1}, &clipped{room: maxSaid}
	cmd := &exec.Cmd{Path: path, Args: p.Command, Env: p.Env, Dir: p.Dir, Stdin: bytes.NewReader(question), Stdout: out, Stderr: said, WaitDelay: outputTime}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be the environment of this process
	}
	group, err := p.Keeper.Start(func(attr *syscall.SysProcAttr) (int, error) {
		cmd.SysProcAttr = attr
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { group.Signal(false) })
	err = cmd.Wait()
	stop()
	group.Reap()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("%w: %s", err, text.Line(said.String(), text.MaxMessageChars))
	}
	return out.Bytes(), nil
}

func (p *program) close() {}

// clipped keeps the start of the written text.
type clipped struct {
	bytes.Buffer
	room int
}

// Write implements io.Writer.
func (c *clipped) Write(p []byte) (int, error) {
	keep := p[:min(len(p), c.room)]
	c.room -= len(keep)
	_, _ = c.Buffer.Write(keep)
	return len(p), nil
}
