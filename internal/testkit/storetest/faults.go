package storetest

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// A Fault is the fate of one request to a store.
type Fault uint8

// The faults.
const (
	None            Fault = iota
	Delay                 // the request takes Faults.Wait longer
	Drop                  // nothing is done, and the caller gets the error that the store does not answer
	ApplyThenFail         // it is done, and the caller gets the error that the store does not answer
	ConflictFalsely       // nothing is done, and the caller gets a conflict
)

// Faults is a store between a room and another store. Its faults are those that Next says, one for
// each request; a nil Next has none. While the store is cut, no request is done.
type Faults struct {
	store.Docs
	Next func() Fault
	Wait time.Duration

	mu      sync.Mutex // guards below
	cut     bool
	follows map[*follower]struct{}
}

// follower is a Follow, with the changes that its function hears when the store is connected again.
type follower struct {
	faults *Faults
	f      func(store.Doc)
	missed map[string]store.Doc
	calls  sync.Mutex // held during calls of f; locked before mu
}

var _ store.Docs = (*Faults)(nil)

// Cut separates the store, or connects it again.
func (f *Faults) Cut(cut bool) {
	f.mu.Lock()
	f.cut = cut
	follows := slices.Collect(maps.Keys(f.follows))
	f.mu.Unlock()
	if !cut {
		for _, h := range follows {
			h.catchUp()
		}
	}
}

// Follow implements store.Docs. While the store is cut, changes are held back.
func (f *Faults) Follow(keyOrPrefix string, see func(store.Doc)) (stop func(), err error) {
	f.mu.Lock()
	if f.cut {
		f.mu.Unlock()
		return nil, store.ErrUnavailable
	}
	h := &follower{faults: f, f: see, missed: map[string]store.Doc{}}
	if f.follows == nil {
		f.follows = map[*follower]struct{}{}
	}
	f.follows[h] = struct{}{}
	f.mu.Unlock()
	forget := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.follows, h)
	}
	end, err := f.Docs.Follow(keyOrPrefix, h.see)
	if err != nil {
		forget()
		return nil, err
	}
	return func() { forget(); end() }, nil
}

// see hands a change on, or keeps it while the store is cut.
func (h *follower) see(d store.Doc) {
	h.calls.Lock()
	defer h.calls.Unlock()
	h.faults.mu.Lock()
	if h.faults.cut {
		h.missed[d.Key] = d
		h.faults.mu.Unlock()
		return
	}
	delete(h.missed, d.Key)
	h.faults.mu.Unlock()
	h.f(d)
}

// catchUp delivers the last change of each document that was held back.
func (h *follower) catchUp() {
	h.calls.Lock()
	defer h.calls.Unlock()
	h.faults.mu.Lock()
	_, on := h.faults.follows[h]
	var missed []store.Doc
	if on && !h.faults.cut {
		missed = slices.SortedFunc(maps.Values(h.missed), func(a, b store.Doc) int { return cmp.Compare(a.Key, b.Key) })
		clear(h.missed)
	}
	h.faults.mu.Unlock()
	for _, d := range missed {
		h.f(d)
	}
}

// before returns the fault of a request that is to be done, or the error of one that is not.
func (f *Faults) before(ctx context.Context) (Fault, error) {
	f.mu.Lock()
	fault := None
	if f.Next != nil {
		fault = f.Next()
	}
	if f.cut {
		fault = Drop
	}
	f.mu.Unlock()
	switch fault {
	case Drop:
		return fault, store.ErrUnavailable
	case ConflictFalsely:
		return fault, store.ErrConflict
	case Delay:
		select {
		case <-time.After(f.Wait):
		case <-ctx.Done():
			return fault, store.ErrUnavailable
		}
	}
	return fault, nil
}

// Get implements store.Docs.
func (f *Faults) Get(ctx context.Context, key string) (store.Doc, error) {
	if fault, err := f.before(ctx); err != nil || fault == ApplyThenFail {
		return store.Doc{}, store.ErrUnavailable
	}
	return f.Docs.Get(ctx, key)
}

// Set implements store.Docs.
func (f *Faults) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	fault, err := f.before(ctx)
	if err != nil {
		return 0, err
	}
	now, err := f.Docs.Set(ctx, key, value, rev, ttl)
	if fault == ApplyThenFail {
		return 0, store.ErrUnavailable
	}
	return now, err
}

// Delete implements store.Docs.
func (f *Faults) Delete(ctx context.Context, key string, rev uint64) error {
	fault, err := f.before(ctx)
	if err != nil {
		return err
	}
	err = f.Docs.Delete(ctx, key, rev)
	if fault == ApplyThenFail {
		return store.ErrUnavailable
	}
	return err
}

// List implements store.Docs.
func (f *Faults) List(ctx context.Context, prefix string) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		if fault, err := f.before(ctx); err != nil || fault == ApplyThenFail {
			yield(store.Doc{}, store.ErrUnavailable)
			return
		}
		f.Docs.List(ctx, prefix)(yield)
	}
}
