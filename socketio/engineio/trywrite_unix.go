//go:build unix

package engineio

import (
	"net"
	"syscall"
)

// rawConn returns the descriptor of a plain connection, or nil.
func rawConn(c net.Conn) syscall.RawConn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// attempt is a write that may be incomplete. It is pooled with its buffers, because each write
// would otherwise allocate the function that it passes to the runtime.
type attempt struct {
	data []byte
	sent int
	err  error
	once func(fd uintptr) bool
}

// tryWrite writes as many bytes as the kernel accepts now. Go's connections are non-blocking, so
// the call returns at once. The caller must write the rest.
func (a *attempt) tryWrite(raw syscall.RawConn, data []byte) (sent int, err error) {
	if a.once == nil {
		a.once = a.write
	}
	a.data, a.sent, a.err = data, 0, nil
	failed := raw.Write(a.once)
	a.data = nil
	if failed != nil {
		return a.sent, failed
	}
	return a.sent, a.err
}

// write always returns true, so that the runtime does not wait and call it again.
func (a *attempt) write(fd uintptr) bool {
	for a.sent < len(a.data) {
		n, err := syscall.Write(int(fd), a.data[a.sent:])
		switch err {
		case nil:
			a.sent += n
		case syscall.EINTR:
		case syscall.EAGAIN:
			return true
		default:
			a.err = err
			return true
		}
	}
	return true
}
