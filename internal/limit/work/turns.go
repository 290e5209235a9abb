package work

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// Turns lets a few computations run at a time. Those that wait are served in the
// order in which they came. It is safe for concurrent use.
type Turns struct {
	free    chan struct{} // a token for each free turn
	waiting atomic.Int32
}

// NewTurns returns n turns. With n under 1 it is one processor less than the
// program may use, and at least one.
func NewTurns(n int) *Turns {
	if n < 1 {
		n = max(1, runtime.GOMAXPROCS(0)-1)
	}
	t := &Turns{free: make(chan struct{}, n)}
	for range n {
		t.free <- struct{}{}
	}
	return t
}

// take waits for a turn until ctx ends or left has passed. A negative left means no limit.
func (t *Turns) take(ctx context.Context, left time.Duration) error {
	select {
	case <-t.free:
		return nil
	default:
	}
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	var late <-chan time.Time
	if left >= 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return ErrTime
	}
}

// give returns a turn.
func (t *Turns) give() { t.free <- struct{}{} }

// wanted reports whether a computation waits for a turn.
func (t *Turns) wanted() bool { return t.waiting.Load() > 0 }
