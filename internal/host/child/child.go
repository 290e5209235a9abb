package child

import (
	"os"
	"sync"
	"syscall"
)

// A Keeper starts children that cannot outlive this process. Its zero value is ready to use. The
// owner calls Close after the children have ended. It is safe for concurrent use.
type Keeper struct {
	thread thread
	dog    watchdog
}

// A Group is a running child with its descendants. Call Reap after waiting for the child.
type Group struct {
	keeper *Keeper
	pid    int

	mu     sync.Mutex // guards below
	reaped bool       // the number of the group may belong to others
	strays []stray    // descendants, when they were last looked for
}

// Start calls start to start a program with the given attributes, and returns the process group
// that the program leads. start returns the program's process id.
func (k *Keeper) Start(start func(attr *syscall.SysProcAttr) (pid int, err error)) (*Group, error) {
	guarded := k.dog.awake()
	pid := 0
	err := k.thread.run(func() (err error) {
		pid, err = start(attributes(guarded))
		return err
	})
	if err != nil {
		return nil, err
	}
	k.dog.watch(pid)
	return &Group{keeper: k, pid: pid}, nil
}

// Close ends the programs of the Keeper itself. Children that still run are ended as well.
func (k *Keeper) Close() { k.dog.close() }

// Look records the child's descendants, so that those that leave its group are found later. Call it
// while the child runs: descendants of an ended child cannot be traced to it.
func (g *Group) Look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
}

func (g *Group) look() {
	if !g.reaped {
		g.strays = append(g.strays, descendants(g.pid, g.strays)...)
	}
}

// Signal asks the child and its descendants to end; if gently is false, it kills them.
func (g *Group) Signal(gently bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	if !g.reaped {
		g.signal(gently)
	}
}

// Kill kills a child that can start no process. Signal looks at all processes of the machine first, for descendants
// that have left the group, which takes milliseconds where there are hundreds.
func (g *Group) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		g.signal(false)
	}
}

// Reap ends the rest of the group and the recorded descendants. Call it right after waiting for the
// child: a group outlives its leader while it has members, and its number cannot be reused until
// then.
func (g *Group) Reap() {
	g.mu.Lock()
	reaped := g.reaped
	if !reaped {
		g.signal(false)
	}
	g.reaped = true
	g.mu.Unlock()
	if !reaped {
		g.keeper.dog.leave(g.pid)
		g.keeper.thread.leave()
	}
}

// Memory returns the resident memory of the group in bytes, 0 if the system does not provide it.
func (g *Group) Memory() int64 { return memoryOf(g.pid) }

// LimitMemory limits the child's writable memory, if the system can.
func (g *Group) LimitMemory(most int64) { limitMemory(g.pid, most) }

// A stray is a descendant. The start time distinguishes it from a later process with the same
// number.
type stray struct{ pid, start int }

// SignalName names the signal that ended a process, "" where none did.
func SignalName(s *os.ProcessState) string { return signalName(s) }
