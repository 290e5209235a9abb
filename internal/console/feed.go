package console

import (
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/telemetry"
)

// Limits of a Feed.
const (
	// kept is the number of events that are stored for new and slow watchers.
	feedSize = 500
	// maxWatchers bounds concurrent streams.
	maxWatchers = 16
	// keptFor is how long events are collected after the last watcher has left, so that a page that
	// is loaded again misses nothing.
	keptFor = 5 * time.Minute
	// maxDetail bounds the text of an event that has no limit of its own.
	maxDetail = 500
)

// errTooMany reports that the limit of watchers is reached.
var errTooMany = errors.New("as many as may watch are watching: close another console")

// Feed stores recent events while a browser watches. The zero value is empty and ready to use. It
// is safe for concurrent use and has no goroutine.
//
//	Observe ──▶ no watcher: one atomic load
//	        └─▶ the ring of the last kept events ──▶ each watcher, at its own place
//
// A watcher that is slower than the events learns how many it has missed. It never delays a call.
type Feed struct {
	ring atomic.Pointer[ring]

	mu sync.Mutex // guards creating and dropping a ring
}

// ring holds the events since the first watcher came.
type ring struct {
	id string // of this ring, as numbers of events begin anew in each

	mu       sync.Mutex // guards below
	events   [feedSize]telemetry.Event
	next     uint64 // the number of the next event; the first is 0
	watchers map[*watcher]struct{}
	left     time.Time // when the last watcher left
}

// watcher is one reader of a ring.
type watcher struct {
	feed *Feed
	ring *ring
	wake chan struct{} // capacity 1: there is more
}

// Observe records an event. It never waits for a watcher.
func (f *Feed) Observe(e telemetry.Event) {
	if r := f.ring.Load(); r != nil && !r.add(&e) {
		f.retire(r)
	}
}

// add returns false if there has been no watcher for keptFor.
func (r *ring) add(e *telemetry.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watchers) == 0 && e.Time.Sub(r.left) > keptFor {
		return false
	}
	slot := &r.events[r.next%feedSize]
	*slot = *e
	if len(slot.Detail) > maxDetail {
		slot.Detail = clip(slot.Detail, maxDetail)
	}
	r.next++
	for w := range r.watchers {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// retire drops a ring, unless a new watcher has just come.
func (f *Feed) retire(r *ring) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watchers) == 0 {
		f.ring.CompareAndSwap(r, nil)
	}
}

// watch starts watching. The caller must call leave.
func (f *Feed) watch() (*watcher, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.ring.Load()
	if r == nil {
		r = &ring{id: rand.Text()[:8], watchers: map[*watcher]struct{}{}}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watchers) >= maxWatchers {
		return nil, errTooMany
	}
	w := &watcher{feed: f, ring: r, wake: make(chan struct{}, 1)}
	r.watchers[w] = struct{}{}
	f.ring.Store(r)
	return w, nil
}

// leave ends watching. Events are collected for keptFor more after now.
func (w *watcher) leave(now time.Time) {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	delete(w.ring.watchers, w)
	w.ring.left = now
}

// read copies the events from number from on into buf and returns how many these
// are, the number of the first, and how many before it are gone.
func (w *watcher) read(from uint64, buf []telemetry.Event) (n int, first, missed uint64) {
	r := w.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	first = min(from, r.next)
	if r.next > feedSize && first < r.next-feedSize {
		missed = r.next - feedSize - first
		first = r.next - feedSize
	}
	for n < len(buf) && first+uint64(n) < r.next {
		buf[n] = r.events[(first+uint64(n))%feedSize]
		n++
	}
	return n, first, missed
}
