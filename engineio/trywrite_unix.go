//go:build unix

package engineio

import (
	"errors"
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

// tryWrite writes as much as the kernel takes now. Go's connections are non-blocking descriptors, so that the call returns at
// once; waiting for the rest is somebody else's work.
func tryWrite(raw syscall.RawConn, data []byte) (sent int, err error) {
	failed := raw.Write(func(fd uintptr) bool {
		for sent < len(data) {
			n, errno := syscall.Write(int(fd), data[sent:])
			if errors.Is(errno, syscall.EINTR) {
				continue
			}
			if errors.Is(errno, syscall.EAGAIN) {
				break
			}
			if errno != nil {
				err = errno
				break
			}
			sent += n
		}
		return true
	})
	if failed != nil {
		return sent, failed
	}
	return sent, err
}
