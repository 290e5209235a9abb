package sandbox

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/host/confine"
)

// errNotSelf is the error of an executable that cannot start itself.
var errNotSelf = errors.New("this executable cannot confine servers: call weir.RunWorker at the top of its main")

var ready atomic.Bool

// Run is a first call of main in an executable that confines servers. In a process between weir and a server Run does not
// return. In all others it returns at once.
func Run() {
	if w, command, ok := confine.Asked(); ok {
		os.Exit(between(w, command))
	}
	ready.Store(true)
}

// self returns the path of this executable. The error says that its main does not call Run.
func self() (string, error) {
	if !ready.Load() {
		return "", errNotSelf
	}
	return os.Executable()
}
