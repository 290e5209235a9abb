//go:build unix

package hop

import (
	"errors"
	"syscall"
)

// canProbe says that an idle connection can be asked whether it is still open.
const canProbe = true

// probeSocket reads from the socket without waiting. A byte or an end makes the connection useless,
// so nothing is lost with the byte.
func (c *conn) probeSocket(fd uintptr) bool {
	for {
		_, err := syscall.Read(int(fd), c.one[:])
		if err == syscall.EINTR {
			continue
		}
		c.quiet = errors.Is(err, syscall.EAGAIN)
		return true
	}
}
