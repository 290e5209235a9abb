package program

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/program/worker"
)

// argument is the argument with which an executable starts as a worker.
const argument = "program-worker"

// ErrNotSelf is the error of an executable that cannot start itself as a worker.
var ErrNotSelf = errors.New("this executable does not start workers of programs: call RunWorker at the top of its main")

// ready says that RunWorker was called: this executable, started again, would be a worker.
var ready atomic.Bool

// RunWorker is the first call of main in an executable that runs programs. In a process that is started as a
// worker it runs a program and does not return. In all others it returns at once.
func RunWorker() {
	if len(os.Args) == 2 && os.Args[1] == argument {
		os.Exit(worker.Main())
	}
	ready.Store(true)
}

// Self returns the command that starts this executable as a worker, or ErrNotSelf.
func Self() ([]string, error) {
	if !ready.Load() {
		return nil, ErrNotSelf
	}
	if runtime.GOOS == "linux" {
		return []string{"/proc/self/exe", argument}, nil // the same one also when its file was replaced
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []string{path, argument}, nil
}

// Check compiles a program without running it, in this process. The error is an *Error with the line of what is wrong
// with its syntax, or says that the engine cannot start.
func Check(source string) error {
	f, err := worker.Check(source)
	if f == nil {
		return err
	}
	return (&run{program: Program{Source: source}}).failure(*f)
}
