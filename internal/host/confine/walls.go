package confine

import (
	"encoding/json"
	"fmt"
	"os"
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
	// Carry is a socket of the file system to which a process between carries the connections that the program makes to Port.
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

// init becomes the program if the process is started for it, before the packages of the gateway are initialised: that takes
// longer than the walls. Package version says how.
func init() {
	if w, command, ok := Asked(); ok && w.Carry == "" && w.Watch == "" {
		os.Exit(become(w, command))
	}
}

// Asked returns what the arguments of this process ask, if it is started with Walls.Arguments. Processes with Carry and Watch
// are of the caller.
func Asked() (w Walls, command []string, ok bool) {
	if len(os.Args) < 5 || os.Args[1] != argument || os.Args[3] != "--" || json.Unmarshal([]byte(os.Args[2]), &w) != nil {
		return Walls{}, nil, false
	}
	return w, os.Args[4:], true
}

// Refuse says on standard error why the program is not started, and returns the exit code for it.
func (w Walls) Refuse(err error) int {
	fmt.Fprintf(os.Stderr, "weir: the server %q is not started: %v\n", w.Name, err)
	return 126
}

// Arguments returns the arguments with which the executable becomes a program, whose path is absolute, with its arguments.
func (w Walls) Arguments(program string, args ...string) []string {
	raw, err := json.Marshal(w)
	if err != nil {
		panic(err) // cannot happen: texts and numbers
	}
	return append([]string{argument, string(raw), "--", program}, args...)
}
