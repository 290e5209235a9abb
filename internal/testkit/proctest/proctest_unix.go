//go:build unix

package proctest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Alive reports whether a process runs. A zombie that waits for its parent does not.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// Exists reports whether a process is there, a zombie included.
func Exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

// Kill ends a process at once.
func Kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// KillGroup ends every process of a group at once.
func KillGroup(group int) error { return syscall.Kill(-group, syscall.SIGKILL) }

// Group returns the attributes of a command that starts in a process group of its own.
func Group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
