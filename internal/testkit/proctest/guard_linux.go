package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// showsVariables says that the system shows the variables with which processes began.
const showsVariables = true

// patience is the time in which processes end by themselves. After it they are killed.
const patience = 5 * time.Second

// apart makes the guard a session of its own, which a Ctrl-C at the terminal does not end.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// endMarked ends all processes with a mark. It asks each of them once, and kills those that are left.
// It gives up those that survive that.
func endMarked(of string) {
	var asked []int
	for began := time.Now(); time.Since(began) < 2*patience; time.Sleep(20 * time.Millisecond) {
		left := marked(of)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			switch {
			case time.Since(began) > patience:
				_ = syscall.Kill(pid, syscall.SIGKILL)
			case !slices.Contains(asked, pid):
				asked = append(asked, pid)
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
	}
}

// marked returns the processes with a mark.
func marked(of string) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && isMarked(pid, of) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isMarked reports whether a process that runs has a mark.
func isMarked(pid int, of string) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.Contains(strings.Split(string(data), "\x00"), mark+"="+of)
}
