package proctest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// mark is the variable by which the processes of a test binary are known: they inherit it.
	mark = "PROCTEST_OF"
	// asGuard is the argument that makes a test binary the guard of another one, whose mark follows.
	asGuard = "proctest-guard"
)

// guarded is the state of a guarded test binary.
var guarded struct {
	mark string   // of its processes
	pipe *os.File // the guard's standard input; the system closes it when this process ends
}

// Guard ends the processes that tests leave behind when this test binary ends, however it ends: also
// by the time limit of go test, which runs no cleanup. Without it, programs that leave their parent's
// tree, such as a gateway in the background, would run on.
//
// Call it first in TestMain: it starts the test binary a second time, as the guard, and does not
// return there. It knows processes by a variable that they inherit, and does nothing on systems that
// do not show the variables of processes (/proc/PID/environ).
func Guard() error {
	if len(os.Args) == 3 && os.Args[1] == asGuard {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other binary ends
		endMarked(os.Args[2])
		os.Exit(0)
	}
	if !showsVariables {
		return nil
	}
	of := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	guard := exec.Command(exe, asGuard, of)
	guard.Env, guard.Stdin, guard.SysProcAttr = append(guard.Environ(), mark+"="), theirs, apart()
	if err := guard.Start(); err != nil {
		ours.Close()
		return fmt.Errorf("starting a guard for the processes of tests: %w", err)
	}
	guarded.mark, guarded.pipe = of, ours
	return os.Setenv(mark, of)
}

// Guarded reports whether a process ends with this test binary. It is true of every process on
// systems where Guard does nothing.
func Guarded(pid int) bool {
	return !showsVariables || isMarked(pid, guarded.mark)
}
