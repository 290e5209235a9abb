package runs

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errTime is the cause of the end of a run whose time is over.
var errTime = errors.New("the time of the run is over")

// clock ends a context when a run has taken its time. The time in which a person is asked does not count:
// a person needs more than a minute to find the question. It is safe for concurrent use.
type clock struct {
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards below
	left   time.Duration
	since  time.Time   // of the last start
	timer  *time.Timer // nil while it stands
	paused int
}

// newClock returns a context with a clock. The caller calls stop.
func newClock(ctx context.Context, limit time.Duration) (context.Context, *clock) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &clock{cancel: cancel, left: limit}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start()
	return ctx, c
}

// start is called with mu held.
func (c *clock) start() {
	c.since = time.Now()
	c.timer = time.AfterFunc(c.left, func() { c.cancel(errTime) })
}

// pause stops the time until the returned function is called.
func (c *clock) pause() (goOn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 && c.timer != nil && c.timer.Stop() {
		c.left -= time.Since(c.since)
		c.timer = nil
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.paused--; c.paused == 0 && c.timer == nil {
			c.start()
		}
	})
}

// stop ends the context and the clock.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused++ // it starts no more
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cancel(nil)
}
