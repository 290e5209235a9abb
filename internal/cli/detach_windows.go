package cli

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached gives a program no console, so that it outlives this one.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// endFamily kills a program. What it has started ends by itself.
func endFamily(p *os.Process) error { return p.Kill() }
