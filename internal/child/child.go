// Package child starts programs that end with this process, however it ends.
//
//	Keeper.Start ──▶ child, leader of a process group of its own ──▶ its children, mostly in that group
//	     │
//	     ├─ Group.Signal, Group.Reap    the group, and descendants that have left it (Linux)
//	     ├─ parent-death signal         this process dies: the kernel ends the child (Linux)
//	     └─ watchdog                    this process dies: a shell ends the groups that are left (Unix)
//
// A process that is killed (SIGKILL, out of memory) cannot end its children. The
// kernel can, but only the child itself; and it takes the end of the thread that
// started the child for the end of the process, so that thread is kept. What the
// child has started is ended by the watchdog: a shell that waits on a pipe for
// the end of this process and knows the groups.
//
// The package knows nothing of what programs say to each other.
package child

import (
	"os"
	"sync"
	"syscall"
)

// A Keeper starts children and keeps them from outliving this process. Its zero
// value is ready. Its owner calls Close once the children have ended. It is safe
// for concurrent use.
type Keeper struct {
	thread thread
	dog    watchdog
}

// A Group is a running child with what it has started. Reap must be called once
// the child has been waited for.
type Group struct {
	keeper *Keeper
	pid    int

	mu     sync.Mutex // guards below
	reaped bool       // the number of the group may belong to others
	strays []stray    // descendants, when they were last looked for
}

// Start has start start a program with the attributes given, and returns the
// group that the program leads. start returns the program's process id.
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

// Close ends what the Keeper itself has started. Children that still run are
// ended, too.
func (k *Keeper) Close() { k.dog.close() }

// Look notes the descendants of the child, so that those which leave its group are
// found later. Call it while the child lives: what an ended child has left behind
// has no parent that tells whose it was.
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

// Signal asks the child and its descendants to end, or ends them at once if it is
// not gentle.
func (g *Group) Signal(gently bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	if !g.reaped {
		g.signal(gently)
	}
}

// Reap ends what is left of the group and of the descendants that were noted. Call
// it right after the child has been waited for: a group outlives its leader while
// it has members, and its number cannot be taken until then.
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

// Memory returns the resident memory of the group in bytes, 0 where the system
// does not tell.
func (g *Group) Memory() int64 { return memoryOf(g.pid) }

// LimitMemory bounds what the child may write to, where the system can.
func (g *Group) LimitMemory(most int64) { limitMemory(g.pid, most) }

// A stray is a descendant. Its number may be taken by another process when it has
// ended, so the time of its start belongs to it.
type stray struct{ pid, start int }

// SignalName names the signal that ended a process, "" where none did.
func SignalName(s *os.ProcessState) string { return signalName(s) }
