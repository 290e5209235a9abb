//go:build !unix

package proctest

import (
	"errors"
	"os"
	"syscall"
)

// Alive reports whether a process runs.
func Alive(pid int) bool { return Exists(pid) }

// Exists reports whether there is a process with an id.
func Exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}

// Kill ends a process at once.
func Kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// KillGroup returns [errors.ErrUnsupported]: this system has no process groups.
func KillGroup(int) error { return errors.ErrUnsupported }

// Group returns the attributes of a common command: this system has no process groups.
func Group() *syscall.SysProcAttr { return nil }
