package app

import "sync"

// preparable is a snapshot as indexing sees it: *gateway.Snapshot.
type preparable interface {
	// Pending reports whether Prepare would take long.
	Pending() bool
	// Prepare may run concurrently with all other uses of the snapshot.
	Prepare()
}

// indexing prepares snapshots for searches. Indexing thousands of tools takes so long that the
// snapshot can be browsed meanwhile; searches wait for it. One goroutine does this. A server whose
// list changes faster than it can be indexed costs no more than that: of the snapshots that wait,
// only the newest is prepared. The zero value works.
type indexing struct {
	all sync.WaitGroup // the goroutine

	mu      sync.Mutex // guards below
	next    preparable // the snapshot that waits, or nil
	running bool
	closed  bool
}

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
		return false
	}
	if x.closed {
		return true // no one searches any more
	}
	x.next = s
	if !x.running {
		x.running = true
		x.all.Go(x.run)
	}
	return true
}

func (x *indexing) run() {
	for s := x.take(); s != nil; s = x.take() {
		s.Prepare()
	}
}

// take returns the snapshot that waits. If it returns nil, the goroutine ends.
func (x *indexing) take() preparable {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.next
	x.next = nil
	x.running = s != nil
	return s
}

// close waits for the goroutine. Snapshots with thousands of new tools are not prepared after it.
func (x *indexing) close() {
	x.mu.Lock()
	x.next, x.closed = nil, true
	x.mu.Unlock()
	x.all.Wait()
}
