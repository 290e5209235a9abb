//go:build unix

package agentserver

import (
	"os"
	"syscall"
)

// newGroup has a process lead a group of its own.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup ends the group of a process, and other processes.
func signalGroup(pid int, others []other, gently bool) {
	sig := syscall.SIGKILL
	if gently {
		sig = syscall.SIGTERM
	}
	_ = syscall.Kill(-pid, sig)
	for _, o := range others {
		if o.alive() {
			_ = syscall.Kill(o.pid, sig)
		}
	}
}

// signalName names the signal that ended a process, "" where none did.
func signalName(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return w.Signal().String()
	}
	return ""
}
