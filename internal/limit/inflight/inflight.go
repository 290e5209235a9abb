package inflight

import (
	"sync"
	"sync/atomic"
)

// Group counts work in progress. The zero value is open and empty. All methods may be called
// concurrently, and Enter and Leave take no lock while no Drain waits.
type Group struct {
	n       atomic.Int64
	closed  atomic.Bool
	waiting atomic.Bool // settled is not nil

	mu      sync.Mutex    // guards below
	settled chan struct{} // closed when n reaches 0; nil if no Drain waits
}

// Enter counts one more piece of work. It returns false after Close; the work is counted in that
// case too. The caller must call Leave once for each Enter.
func (g *Group) Enter() bool {
	g.n.Add(1)
	return !g.closed.Load()
}

// Leave counts one piece of work less.
func (g *Group) Leave() {
	if g.n.Add(-1) == 0 && g.waiting.Load() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.wake()
	}
}

// wake ends the waiting of every Drain. The caller holds mu.
func (g *Group) wake() {
	if g.settled != nil {
		close(g.settled)
		g.settled = nil
		g.waiting.Store(false)
	}
}

// Close makes each later Enter return false. It may be called more than once.
func (g *Group) Close() { g.closed.Store(true) }

// Closed reports whether Close was called.
func (g *Group) Closed() bool { return g.closed.Load() }

// Len returns how much work is in progress.
func (g *Group) Len() int { return int(g.n.Load()) }

// Drain waits until no work is in progress or over is closed. It returns how much work is left then.
func (g *Group) Drain(over <-chan struct{}) (left int) {
	for {
		g.mu.Lock()
		if g.settled == nil {
			g.settled = make(chan struct{})
			g.waiting.Store(true)
		}
		settled := g.settled
		// A Leave before waiting was set wakes no Drain, so the count is read after it.
		if g.n.Load() == 0 {
			g.wake()
			g.mu.Unlock()
			return 0
		}
		g.mu.Unlock()
		select {
		case <-settled:
		case <-over:
			return g.Len()
		}
	}
}
