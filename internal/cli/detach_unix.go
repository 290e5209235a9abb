//go:build unix

package cli

import "syscall"

// detached makes a program a session of its own, which a Ctrl-C at the terminal does not end.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
