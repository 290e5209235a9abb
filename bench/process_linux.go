package main

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end the process where this one is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
