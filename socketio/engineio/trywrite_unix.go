//go:build unix

package engineio

import (
	"net"
	"syscall"
)

// rawConn is the descriptor of a plain connection, or nil.
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

// An attempt is a write that may end early. It is kept with its buffers, because the function that it hands to the runtime would
// be allocated for each write otherwise.
type attempt struct {
	data []byte
	sent int
	err  error
	once func(fd uintptr) bool
}

// tryWrite writes as much as the kernel takes now. Go's connections are non-blocking descriptors, so that the call returns at
// once; waiting for the rest is somebody else's work.
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

// write always returns true: the runtime is not to wait and call again.
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
