package stdio

import (
	"io"
	"os"
	"syscall"
	"time"
)

// pipeBuf is the largest write that a pipe takes whole or not at all (pipe(7), PIPE_BUF).
const pipeBuf = 4096

// pipe is the end of a pipe that can be written without waiting. Only one goroutine may use it.
type pipe struct {
	raw  syscall.RawConn
	data []byte
	err  error
	once func(fd uintptr) bool
}

// pipeOf returns the pipe of a writer, or nil if a write to it may block.
func pipeOf(w io.Writer) *pipe {
	f, ok := w.(*os.File)
	if !ok || f.SetWriteDeadline(time.Time{}) != nil { // only non-blocking files take deadlines
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	p := &pipe{raw: raw}
	p.once = p.write
	return p
}

// tryWrite writes data and returns true, or returns false if it would have to wait or fails. Then it
// has written nothing.
func (p *pipe) tryWrite(data []byte) bool {
	if p == nil || len(data) > pipeBuf {
		return false
	}
	p.data, p.err = data, nil
	err := p.raw.Write(p.once)
	p.data = nil
	return err == nil && p.err == nil
}

// write always returns true, so that the runtime does not wait and call it again.
func (p *pipe) write(fd uintptr) bool {
	for {
		if _, p.err = syscall.Write(int(fd), p.data); p.err != syscall.EINTR {
			return true
		}
	}
}
