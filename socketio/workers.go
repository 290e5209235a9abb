package socketio

import (
	"sync"
	"sync/atomic"
	"time"
)

// workers runs handlers. A new goroutine has a small stack and copies it as it grows, which costs
// much of a short handler's time. So a finished goroutine waits a moment for the next handler and
// reuses its stack.
type workers struct {
	tasks sync.WaitGroup // all goroutines started here

	next    chan func()   // to a waiting goroutine
	closed  chan struct{} // waiting goroutines end
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
		if w.waiting.Add(1) > maxIdle { // enough goroutines wait
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

// wait waits until all goroutines have ended. Functions run after this are still executed, but
// their goroutines end at once.
func (w *workers) wait() {
	w.once.Do(func() { close(w.closed) })
	w.tasks.Wait()
}
