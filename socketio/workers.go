package socketio

import (
	"sync"
	"sync/atomic"
	"time"
)

// workers run handlers. A goroutine begins with a small stack and copies it as it grows, which for a short handler is a good
// part of the work; so one that is done waits a moment for the next handler, with the stack that it has.
type workers struct {
	tasks sync.WaitGroup // of everything that is started here

	next    chan func()   // to one that waits
	closed  chan struct{} // nobody waits any longer
	once    sync.Once
	waiting atomic.Int64
}

const (
	workerWaits = 250 * time.Millisecond
	maxIdle     = 16
)

func newWorkers() *workers {
	return &workers{next: make(chan func()), closed: make(chan struct{})}
}

// run calls f in a goroutine.
func (w *workers) run(f func()) {
	select {
	case w.next <- f:
		return
	default:
	}
	w.tasks.Add(1)
	go w.work(f)
}

func (w *workers) work(f func()) {
	defer w.tasks.Done()
	var timer *time.Timer
	for f != nil {
		f()
		if w.waiting.Add(1) > maxIdle { // Enough are waiting.
			w.waiting.Add(-1)
			return
		}
		if timer == nil {
			timer = time.NewTimer(workerWaits)
			defer timer.Stop()
		} else {
			timer.Reset(workerWaits)
		}
		f = nil
		select {
		case f = <-w.next:
		case <-timer.C:
		case <-w.closed:
		}
		w.waiting.Add(-1)
	}
}

// wait returns when everything has ended. What is run from now on is run still, but waits for nothing more.
func (w *workers) wait() {
	w.once.Do(func() { close(w.closed) })
	w.tasks.Wait()
}
