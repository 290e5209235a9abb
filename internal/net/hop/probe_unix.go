//go:build unix

package hop

import (
	"errors"
	"syscall"
)

// CanProbe says that an idle connection can be asked whether it is still open.
const CanProbe = true

// lookAt reads from the socket without waiting. A byte or an end makes the connection useless,
// so nothing is lost with the byte.
func (p *Probe) lookAt(fd uintptr) bool {
	for {
		_, err := syscall.Read(int(fd), p.one[:])
		if err == syscall.EINTR {
			continue
		}
		p.quiet = errors.Is(err, syscall.EAGAIN)
		return true
	}
}
