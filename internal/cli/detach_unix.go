//go:build unix

package cli

import (
	"os"
	"syscall"
)

// detached makes a program a session of its own, which a Ctrl-C at the terminal does not end.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// endFamily kills a detached program and all programs that it has started.
func endFamily(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
