package artifact

import (
	"container/heap"
	"time"
)

// due is an artifact or a token, which expires.
type due interface {
	expiry() time.Time
	place() *int // its index in the heap
}

func (it *item) expiry() time.Time { return it.Expires }
func (it *item) place() *int       { return &it.at }

// dueHeap has the one that expires first on top.
type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].expiry().Before(h[j].expiry()) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].place(), *h[j].place() = i, j
}

// Push and Pop are for container/heap.
func (h *dueHeap) Push(x any) {
	d := x.(due)
	*d.place() = len(*h)
	*h = append(*h, d)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}

// push adds an item to the heap. If it expires first, push wakes the janitor. The caller holds mu.
func (l *ledger) push(d due) {
	heap.Push(&l.byAge, d)
	if *d.place() == 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// expire removes expired artifacts, tokens and tombstones. The caller holds mu.
func (l *ledger) expire(now time.Time) {
	for len(l.byAge) > 0 && !l.byAge[0].expiry().After(now) {
		switch d := l.byAge[0].(type) {
		case *item:
			l.remove(d, ErrExpired, now)
		case *token:
			l.revoke(d, now)
		}
	}
	for e := l.gone.Front(); e != nil && !e.Value.(*tombstone).at.Add(goneFor).After(now); e = l.gone.Front() {
		l.forget(e)
	}
}

// nextDue returns the time until something expires, at most an hour. The caller holds mu.
func (l *ledger) nextDue(now time.Time) time.Duration {
	next := time.Hour
	if len(l.byAge) > 0 {
		next = min(next, l.byAge[0].expiry().Sub(now))
	}
	if e := l.gone.Front(); e != nil {
		next = min(next, e.Value.(*tombstone).at.Add(goneFor).Sub(now))
	}
	return next
}

// janitor removes expired items, even without calls. It ends when stop is closed.
func (l *ledger) janitor(stop <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := time.Hour
		if now, err := l.lock(); err == nil {
			next = l.nextDue(now)
		}
		l.unlock()
		timer.Reset(max(next, time.Millisecond))
		select {
		case <-timer.C:
		case <-l.wake:
		case <-stop:
			return
		}
	}
}
