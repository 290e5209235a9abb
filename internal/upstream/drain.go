package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A reload that changes or removes a server lets its calls in flight finish, and so does a restart:
//
//	Apply, Restart ─▶ old: retired ─▶ drained: until no call is in flight, or its time is up ─▶ closed
//	               └▶ new: started at once, or, where both want one port, when the old one has ended
//
// A retired upstream tells the Sink nothing any more: the new one has its place.

// busy counts the calls that a drain waits for. The zero value is ready to use; it is safe for
// concurrent use.
type busy struct {
	n        atomic.Int64
	draining atomic.Bool
	idle     chan struct{} // capacity 1: n may have become 0 while draining
}

func newBusy() busy { return busy{idle: make(chan struct{}, 1)} }

// enter counts one more and returns the new count.
func (b *busy) enter() int64 { return b.n.Add(1) }

// leave counts one less.
func (b *busy) leave() {
	if b.n.Add(-1) == 0 && b.draining.Load() {
		nudge(b.idle)
	}
}

// drain waits until the count is 0. If limit passes or ctx ends first, drain returns the remaining
// count.
func (b *busy) drain(ctx context.Context, limit time.Duration) (left int64) {
	b.draining.Store(true)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for b.n.Load() > 0 {
		select {
		case <-b.idle:
		case <-timer.C:
			return b.n.Load()
		case <-ctx.Done():
			return b.n.Load()
		}
	}
	return 0
}

// outlet passes an upstream's entries to the Sink until it is closed.
type outlet struct {
	mu      sync.Mutex // held while the Sink is called; guards retired
	retired bool
}

// tell calls f unless the outlet is closed.
func (o *outlet) tell(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.retired {
		f()
	}
}

// retire closes the outlet. It waits for a call of the Sink in progress.
func (o *outlet) retire() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retired = true
}

// departure is the end of an upstream that a reload has changed or removed, or that is restarted.
type departure struct {
	u      *Upstream
	limit  time.Duration   // of the drain
	why    string          // the upstream ends: a clause for people
	free   chan struct{}   // closed when the next upstream of the name may start
	done   chan struct{}   // closed when this one and its predecessors have ended
	before *departure      // of the same name; nil if all of them have ended
	hurry  context.Context // ends when the Manager is closed, or with cut
	cut    context.CancelFunc
}

// errMoved is the error of a call that has no connection yet when another upstream takes the place of its own.
var errMoved = errors.New("the server is at another node")

// moveTo makes next the place of new calls of u, and of those that wait for a connection: the server has moved
// to another node of the cluster, or from there. Calls that have a connection go on.
func moveTo(u, next *Upstream) {
	u.next.Store(next)
	u.conns.move()
	u.watches.move(next)
}

// Ended waits until the former upstreams of a name have ended, with their programs. If ctx ends first, their
// calls are cut off, and programs that do not end within Options.StopGrace are killed.
func (m *Manager) Ended(ctx context.Context, name string) {
	m.mu.Lock()
	last := m.ends[name]
	m.mu.Unlock()
	if last == nil {
		return
	}
	select {
	case <-last.done:
		return
	case <-ctx.Done():
	}
	var all []*Upstream
	m.mu.Lock()
	for d := last; d != nil; d = d.before {
		d.cut()
		all = append(all, d.u)
	}
	m.mu.Unlock()
	grace := time.NewTimer(m.opts.StopGrace)
	defer grace.Stop()
	select {
	case <-last.done:
		return
	case <-grace.C:
	}
	for _, u := range all {
		u.programs.kill()
	}
	<-last.done
}

// leave ends the upstream. gone is called if no other upstream takes its place; otherwise it is
// nil.
func (d *departure) leave(gone func()) {
	u := d.u
	u.lists.out.retire()
	if gone != nil {
		gone()
	}
	if d.before != nil {
		<-d.before.free
	}
	limit := d.limit
	servesURL := u.program() && u.cfg.URL != ""
	if servesURL && gone == nil {
		limit = min(limit, u.opts.ReadyBudget/2) // calls of the next one wait for the port
	}
	overlap := !servesURL && limit > 0 && u.work.n.Load() > 0
	if overlap {
		close(d.free)
	}
	if n := u.work.n.Load(); n > 0 && limit > 0 {
		u.log.Info("calls in flight go on although "+d.why, "calls", n, "limit", limit)
		if left := u.work.drain(d.hurry, limit); left > 0 {
			u.log.Warn("calls in flight are cut off: "+d.why+"; give them more time with mcpServers.NAME.drain", "calls", left, "limit", limit)
		}
	}
	u.close()
	if d.before != nil {
		<-d.before.done
	}
	if !overlap {
		close(d.free)
	}
	close(d.done)
}
