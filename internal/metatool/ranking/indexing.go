package ranking

import (
	"sync"
	"time"
)

// preparable is a snapshot as indexing sees it: *metatool.Snapshot.
type preparable interface {
	// Pending reports whether Prepare would take long.
	Pending() bool
	// Prepare may run concurrently with all other uses of the snapshot.
	Prepare()
}

// indexing prepares snapshots for searches. Indexing thousands of tools takes so long that the
// snapshot can be browsed meanwhile; searches wait for it. One goroutine does this. A server whose
// list changes faster than it can be indexed costs no more than that: of the snapshots that wait,
// only the newest is prepared. Of small snapshots, one in settle is, so that thousands of servers that come one after
// the other do not pay for an index each; a search in between prepares what it needs. The zero value works.
type indexing struct {
	all sync.WaitGroup // the goroutine

	mu      sync.Mutex // guards below
	next    preparable // the snapshot that waits, or nil
	running bool
	closed  bool
	last    time.Time     // when a small snapshot was prepared
	end     chan struct{} // closed with closed; nil: no goroutine has run
}

// settle is the time in which one small snapshot is prepared. It is short for a person who looks for a new tool, and
// long for the few milliseconds that an index of thousands of tools takes.
const settle = 100 * time.Millisecond

// prepare prepares a snapshot, or has it prepared. Each call is about a newer snapshot.
func (x *indexing) prepare(s preparable) {
	if !x.later(s) {
		s.Prepare()
	}
}

// later reports whether the goroutine prepares a snapshot.
func (x *indexing) later(s preparable) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = nil
	if !s.Pending() {
		now := time.Now()
		if now.Sub(x.last) >= settle {
			x.last = now
			return false
		}
	}
	if x.closed {
		return true // no one searches any more
	}
	x.next = s
	if !x.running {
		if x.end == nil {
			x.end = make(chan struct{})
		}
		x.running = true
		x.all.Go(x.run)
	}
	return true
}

func (x *indexing) run() {
	for s, wait := x.take(); s != nil || wait > 0; s, wait = x.take() {
		if s != nil {
			s.Prepare()
			continue
		}
		select {
		case <-x.end:
		case <-time.After(wait):
		}
	}
}

// take returns the snapshot that waits, or how long it waits still. If it returns neither, the goroutine ends.
func (x *indexing) take() (preparable, time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.next
	if s != nil && !s.Pending() {
		now := time.Now()
		if wait := settle - now.Sub(x.last); wait > 0 {
			return nil, wait
		}
		x.last = now
	}
	x.next = nil
	x.running = s != nil
	return s, 0
}

// close waits for the goroutine. Snapshots with thousands of new tools are not prepared after it.
func (x *indexing) close() {
	x.mu.Lock()
	if x.next = nil; !x.closed && x.end != nil {
		close(x.end)
	}
	x.closed = true
	x.mu.Unlock()
	x.all.Wait()
}
