//go:build unix

package stdio

import (
	"os/exec"
	"syscall"
)

// setGroup puts the child into a process group of its own.
func setGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// The group outlives its leader while a member lives, so these reach
// grandchildren even after the child has been waited for. Its number cannot
// be taken by another process while the group exists; when it is empty, kill
// answers ESRCH.
func termGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
