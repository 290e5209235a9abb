//go:build !unix

package child

import (
	"os"
	"syscall"
)

// signal ends only the child: there are no process groups here.
func (g *Group) signal(bool) {
	if p, err := os.FindProcess(g.pid); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

func attributes(bool) *syscall.SysProcAttr { return nil }

func signalName(*os.ProcessState) string { return "" }
