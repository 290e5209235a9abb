package child

import (
	"runtime"
	"sync"
	"syscall"
)

// attributes has a child lead a group of its own, and the kernel end it when this process dies:
// gently where the watchdog ends processes that do not obey.
func attributes(guarded bool) *syscall.SysProcAttr {
	sig := syscall.SIGKILL
	if guarded {
		sig = syscall.SIGTERM
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: sig}
}

// A thread is an operating system's thread that starts children and lives as long as they do. To
// the kernel the thread is the parent: its end would end them (prctl(2), PR_SET_PDEATHSIG). The
// runtime ends threads as well, such as one that a goroutine was locked to when it returned.
type thread struct {
	mu       sync.Mutex // guards below
	children int
	jobs     chan func() // taken by the thread; nil while there are no children
}

// run has the thread call start, and keeps the thread for the child unless start
// fails.
func (t *thread) run(start func() error) error {
	t.mu.Lock()
	if t.children == 0 {
		t.jobs = make(chan func())
		go serve(t.jobs)
	}
	t.children++
	jobs := t.jobs
	t.mu.Unlock()
	done := make(chan error, 1)
	jobs <- func() { done <- start() }
	err := <-done
	if err != nil {
		t.leave()
	}
	return err
}

// leave says that a child has ended. The last one ends the goroutine; the thread
// goes back to the runtime.
func (t *thread) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children--; t.children == 0 {
		close(t.jobs)
		t.jobs = nil
	}
}

func serve(jobs chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for job := range jobs {
		job()
	}
}
