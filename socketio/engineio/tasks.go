package engineio

import "sync/atomic"

// tasks counts goroutines, so that Shutdown and Wait can wait for their end.
type tasks struct {
	running atomic.Int64
	idle    chan struct{} // capacity 1
}

func (t *tasks) Go(f func()) {
	t.running.Add(1)
	go func() {
		defer t.finish()
		f()
	}()
}

func (t *tasks) finish() {
	if t.running.Add(-1) == 0 {
		select {
		case t.idle <- struct{}{}:
		default:
		}
	}
}

// wait returns true when no goroutine runs, or false when stop is closed.
func (t *tasks) wait(stop <-chan struct{}) bool {
	for t.running.Load() != 0 {
		select {
		case <-t.idle:
		case <-stop:
			return false
		}
	}
	return true
}
