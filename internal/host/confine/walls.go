package confine

import (
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
)

// Walls is what is left to a program.
type Walls struct {
	// Name is of the server, for messages.
	Name string `json:"name"`
	// Read are files and folders that the program reads and executes, and Write are those that it changes as well. Missing
	// ones are left out.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Offline takes the network away, except for TCP connections to Port on this machine, if it is not 0.
	Offline bool `json:"offline,omitempty"`
	Port    int  `json:"port,omitempty"`
	// Carry is a socket of the file system to which the process carries the connections that the program makes to Port.
	Carry string `json:"carry,omitempty"`
	// Watch is the socket of a Watcher. Then there are no walls: the watcher is told what the program touches.
	Watch string `json:"watch,omitempty"`
	// Boxed says that the program is in namespaces of its own already: it sees only the files of Read and Write, and its own
	// network.
	Boxed bool `json:"boxed,omitempty"`
	// Memory bounds the memory that each process may write to, in bytes, Processes the processes of the user, and CPUs the
	// processors; 0: none.
	Memory    int64 `json:"memory,omitempty"`
	Processes int   `json:"processes,omitempty"`
	CPUs      int   `json:"cpus,omitempty"`
	// Need says that a wall that this system cannot build is an error.
	Need bool `json:"need,omitempty"`
}

// argument is the argument with which an executable starts as the process of this package.
const argument = "confine"

// errNotSelf is the error of an executable that cannot start itself.
var errNotSelf = errors.New("this executable cannot confine servers: call weir.RunWorker at the top of its main")

var ready atomic.Bool

// Run is a first call of main in an executable that confines servers. In a process that is started for it Run does not
// return. In all others it returns at once.
func Run() {
	if len(os.Args) > 4 && os.Args[1] == argument && os.Args[3] == "--" {
		os.Exit(become(os.Args[2], os.Args[4:]))
	}
	ready.Store(true)
}

// Self returns the path of this executable. The error says that its main does not call Run.
func Self() (string, error) {
	if !ready.Load() {
		return "", errNotSelf
	}
	return os.Executable()
}

// Arguments returns the arguments with which the executable becomes a program with its arguments.
func (w Walls) Arguments(program string, args ...string) []string {
	raw, err := json.Marshal(w)
	if err != nil {
		panic(err) // cannot happen: texts and numbers
	}
	return append([]string{argument, string(raw), "--", program}, args...)
}
