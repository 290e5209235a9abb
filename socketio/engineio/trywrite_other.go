//go:build !unix

package engineio

import (
	"net"
	"syscall"
)

// rawConn returns nil: on this system, a goroutine that may block does every write.
func rawConn(net.Conn) syscall.RawConn { return nil }

type attempt struct{}

func (*attempt) tryWrite(syscall.RawConn, []byte) (int, error) { return 0, syscall.EINVAL }
