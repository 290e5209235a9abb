//go:build !unix

package agentserver

import (
	"os"
	"syscall"
)

func newGroup() *syscall.SysProcAttr { return nil }

// There are no process groups here; the process alone is ended.
func signalGroup(pid int, _ []other, _ bool) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

func signalName(*os.ProcessState) string { return "" }
