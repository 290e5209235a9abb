//go:build unix

package child

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// shell runs the watchdog. Where there is none, as in a container with nothing but
// programs, the parent-death signal has to do.
const shell = "/bin/sh"

// patience is how long the shell may take to read a line.
const patience = time.Second

// script is the watchdog. It reads "+ GROUP" and "- GROUP", and ends the groups that
// are left at the end of its input, which is the end of the process that writes.
const script = `# ends what weir has started when weir is killed
groups=
while read -r op group; do
  case $op in
  +) groups="$groups $group" ;;
  -) rest=
     for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done
     groups=$rest ;;
  esac
done
[ -n "$groups" ] || exit 0
for g in $groups; do kill -s TERM -- "-$g"; done
sleep 2
for g in $groups; do kill -s KILL -- "-$g"; done
`

// A watchdog is a shell that outlives this process for a moment. It is started with
// the first child.
type watchdog struct {
	mu     sync.Mutex // guards below
	p      *os.Process
	in     *os.File
	groups map[int]bool
	closed bool
	absent bool // it could not be started
}

// awake starts the shell where it does not run, and reports whether it does.
func (w *watchdog) awake() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.p != nil || w.closed || w.absent {
		return w.p != nil
	}
	w.absent = w.start() != nil
	return !w.absent
}

// start is called under mu.
func (w *watchdog) start() error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = in.Close()
		return err
	}
	defer null.Close()
	// A session of its own keeps it from the signals of a terminal.
	w.p, err = os.StartProcess(shell, []string{"sh", "-c", script, "weir-watchdog"}, &os.ProcAttr{
		Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Files: []*os.File{out, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = in.Close()
		return err
	}
	w.in = in
	for group := range w.groups {
		w.tell('+', group)
	}
	return nil
}

func (w *watchdog) watch(group int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups == nil {
		w.groups = map[int]bool{}
	}
	w.groups[group] = true
	w.tell('+', group)
}

func (w *watchdog) leave(group int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.groups, group)
	w.tell('-', group)
}

// tell is called under mu. A shell that does not read was ended by another hand;
// the next child starts another.
func (w *watchdog) tell(op byte, group int) {
	if w.p == nil {
		return
	}
	_ = w.in.SetWriteDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(w.in, "%c %d\n", op, group); err != nil {
		_ = w.p.Kill()
		w.end()
	}
}

// end waits for a shell that is about to end. It is called under mu.
func (w *watchdog) end() {
	_ = w.in.Close()
	_, _ = w.p.Wait() // how it ended is of no interest
	w.p, w.in = nil, nil
}

// close ends the shell. If there are groups left it ends them first, for which it is
// not waited.
func (w *watchdog) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	switch {
	case w.p == nil:
	case len(w.groups) == 0:
		w.end()
	default:
		_ = w.in.Close()
		_ = w.p.Release()
		w.p, w.in = nil, nil
	}
}
