//go:build unix

package child

import (
	"os"
	"syscall"
)

// signal is called under mu, and only while the group is the child's.
func (g *Group) signal(gently bool) {
	sig := syscall.SIGKILL
	if gently {
		sig = syscall.SIGTERM
	}
	_ = syscall.Kill(-g.pid, sig) // an empty group answers ESRCH
	for _, s := range g.strays {
		if s.alive() {
			_ = syscall.Kill(s.pid, sig)
		}
	}
}

func signalName(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return w.Signal().String()
	}
	return ""
}
