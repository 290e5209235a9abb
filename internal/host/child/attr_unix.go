//go:build unix && !linux

package child

import "syscall"

// attributes has a child lead a group of its own.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
