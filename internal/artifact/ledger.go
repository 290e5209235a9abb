package artifact

import (
	"container/heap"
	"container/list"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ledger knows which principal holds which artifacts and tokens, and when they expire. It keeps the
// bounds of a principal; budget keeps the bounds of all principals together.
type ledger struct {
	opts *Options
	wake chan struct{} // wakes the janitor if something expires before it wakes by itself

	mu     sync.Mutex // guards below; never held while a file is read, written or removed
	closed bool
	spaces map[string]*space
	byAge  dueHeap   // items and tokens
	items  int       // in byAge
	gone   list.List // of *tombstone, the oldest in front
	tokens map[[sha256.Size]byte]*token
	dead   []*content // removed under mu, dropped by unlock

	noBackup time.Time // until when no copies are made, after one that failed
}

func newLedger(opts *Options) *ledger {
	return &ledger{
		opts:   opts,
		wake:   make(chan struct{}, 1),
		spaces: make(map[string]*space),
		tokens: make(map[[sha256.Size]byte]*token),
	}
}

// lock takes mu, removes everything that has expired, and returns the time. It fails with ErrClosed
// after close. The caller calls unlock in both cases.
func (l *ledger) lock() (now time.Time, err error) {
	l.mu.Lock()
	now = l.opts.Now()
	if l.closed {
		return now, ErrClosed
	}
	l.expire(now)
	return now, nil
}

// unlock releases mu and then drops the contents that were removed under it.
func (l *ledger) unlock() {
	dead := l.dead
	l.dead = nil
	l.mu.Unlock()
	for _, c := range dead {
		c.unlink()
		c.drop()
	}
}

// close removes everything. It reports whether it is the first call.
func (l *ledger) close() (first bool) {
	l.mu.Lock()
	defer l.unlock()
	if l.closed {
		return false
	}
	l.closed = true
	for _, sp := range l.spaces {
		for _, it := range sp.items {
			it.content.end = closed
			l.dead = append(l.dead, it.content)
		}
	}
	l.spaces, l.tokens, l.byAge, l.items = nil, nil, nil, 0
	l.gone.Init()
	return true
}

// space returns the space of a principal, which it makes if there is none. The caller holds mu.
func (l *ledger) space(principal string) *space {
	sp := l.spaces[principal]
	if sp == nil {
		sp = &space{principal: strings.Clone(principal), items: make(map[string]*item), gone: make(map[string]*list.Element)}
		l.spaces[sp.principal] = sp
	}
	return sp
}

// remove removes an artifact with its tokens, and remembers the reason, if there is one. The caller
// holds mu.
func (l *ledger) remove(it *item, kind error, now time.Time) {
	sp := it.space
	if sp.items[it.Handle] != it {
		return // removed with its last token
	}
	delete(sp.items, it.Handle)
	if !it.beyond {
		sp.bytes -= it.SizeBytes
	}
	if it.recent != nil {
		sp.recent.Remove(it.recent)
	}
	heap.Remove(&l.byAge, it.at)
	l.items--
	l.dead = append(l.dead, it.content)
	if kind == ErrExpired {
		it.content.end = expired
	}
	if !it.single && kind != nil { // single ones have no handle
		t := &tombstone{space: sp, handle: it.Handle, home: it.home, kind: kind, at: now}
		t.order = sp.goneOrder.PushBack(t)
		sp.gone[it.Handle] = l.gone.PushBack(t)
	}
	for t := range it.tokens {
		l.revoke(t, now)
	}
	l.release(sp)
	for sp.goneOrder.Len() > maxGone {
		l.forget(sp.gone[sp.goneOrder.Front().Value.(*tombstone).handle])
	}
}

// forget drops a tombstone. The caller holds mu.
func (l *ledger) forget(e *list.Element) {
	t := l.gone.Remove(e).(*tombstone)
	sp := t.space
	sp.goneOrder.Remove(t.order)
	delete(sp.gone, t.handle)
	l.release(sp)
}

// release drops a principal's space when nothing is left in it. The caller holds mu.
func (l *ledger) release(sp *space) {
	if sp.empty() && l.spaces[sp.principal] == sp {
		delete(l.spaces, sp.principal)
	}
}

// add keeps an item, for which there is room. The caller holds mu.
func (l *ledger) add(sp *space, it *item) {
	l.spaces[sp.principal] = sp // making room may have taken it out
	it.space = sp
	sp.items[it.Handle] = it
	if !it.beyond {
		sp.bytes += it.SizeBytes
	}
	l.items++
	l.push(it)
	if e := sp.gone[it.Handle]; e != nil {
		l.forget(e)
	}
}

// touch starts an item's age again. The caller holds mu.
func (l *ledger) touch(it *item, a Artifact, now time.Time) Artifact {
	it.space.recent.MoveToFront(it.recent)
	it.MediaType, it.Label = a.MediaType, a.Label
	it.Created, it.Expires = now, now.Add(l.opts.TTL)
	heap.Fix(&l.byAge, it.at)
	return it.Artifact
}

// lookup finds an artifact. Its error distinguishes a handle that expired or was evicted from an
// unknown one. The caller holds mu.
func (l *ledger) lookup(by owner, handle string) (*item, error) {
	sp := l.spaces[by.principal]
	if sp == nil {
		return nil, by.unknown(handle)
	}
	if it := sp.items[handle]; it != nil && !it.single && by.opens(it.home) {
		return it, nil
	}
	e := sp.gone[handle]
	if e == nil || !by.opens(e.Value.(*tombstone).home) {
		return nil, by.unknown(handle)
	}
	if e.Value.(*tombstone).kind == ErrExpired {
		return nil, &Error{Kind: ErrExpired, Handle: handle, Detail: fmt.Sprintf(
			"the artifact %s has expired: results are kept for %s (%s); run the tool again to get a new one", handle, l.opts.TTL, l.opts.Setting("ttl"))}
	}
	return nil, &Error{Kind: ErrEvicted, Handle: handle, Detail: fmt.Sprintf(
		"the artifact %s made room for newer ones: %d artifacts and %d bytes are kept for a principal (%s, %s); run the tool again",
		handle, l.opts.MaxCount, l.opts.MaxBytes, l.opts.Setting("max_count"), l.opts.Setting("max_bytes"))}
}
