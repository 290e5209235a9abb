package gateway

import (
	"context"
	"sync"
	"time"
)

// startupLimit bounds how long a request waits for starting upstreams, counted from the start of
// the Gateway. Without the wait, a client that connects at once would see an empty catalog; without
// the limit, one slow server would block it.
type startupLimit struct {
	empty time.Duration // while no server is listed
	some  time.Duration // once some server is listed
}

var (
	// forCatalog applies to requests that show catalog entries.
	forCatalog = startupLimit{10 * time.Second, 4 * time.Second}
	// forShape applies to requests that only show which primitives exist: meta-tools and
	// capabilities.
	forShape = startupLimit{1500 * time.Millisecond, 1500 * time.Millisecond}
	noWait   = startupLimit{}
)

// firstListings follows the start of the upstreams: whether an entry is there, and whether each upstream
// has been listed or has failed once. It is safe for concurrent use.
type firstListings struct {
	began time.Time
	entry chan struct{} // closed when the catalog gets its first entry
	once  sync.Once     // closes entry
	all   chan struct{} // closed when follow has returned
	end   context.CancelFunc
}

func newFirstListings() *firstListings {
	return &firstListings{began: time.Now(), entry: make(chan struct{}), all: make(chan struct{}), end: func() {}}
}

// follow runs wait in the background, which returns after the first attempt of each upstream or at the
// end of its context.
func (f *firstListings) follow(wait func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	f.end = cancel
	go func() {
		defer close(f.all)
		wait(ctx)
	}()
}

// found says that the catalog has an entry.
func (f *firstListings) found() { f.once.Do(func() { close(f.entry) }) }

// over reports whether each upstream has been listed or has failed.
func (f *firstListings) over() bool {
	select {
	case <-f.all:
		return true
	default:
		return false
	}
}

// await waits for the first start of the upstreams, within limit.
func (f *firstListings) await(ctx context.Context, limit startupLimit) {
	empty := time.NewTimer(limit.empty - time.Since(f.began))
	defer empty.Stop()
	select {
	case <-f.entry:
	case <-f.all:
		return
	case <-ctx.Done():
		return
	case <-empty.C:
		return
	}
	some := time.NewTimer(limit.some - time.Since(f.began))
	defer some.Stop()
	select {
	case <-f.all:
	case <-ctx.Done():
	case <-some.C:
	}
}
