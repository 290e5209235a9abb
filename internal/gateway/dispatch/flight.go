package dispatch

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
)

// flights are the calls of one cache that are being made now. An equal call of
// the same principal waits for the one that was first instead of being made, too:
//
//	first ──▶ upstream ─────────▶ result ─▶ land ─┬─▶ first
//	equal ──▶ wait ───────────────────────────────┴─▶ equal, a cache hit
//
// A waiting caller hears nothing of the call's progress, as with any answer of the
// cache, and goes away by itself. Where the first call has no result to share (it
// failed, or the server asked its agent something) the others make their own; where
// its agent went away, one of the others is the first now.
type flights struct {
	mu     sync.Mutex // guards below, and the flights' waiting
	flying map[flightKey]*flight
}

type flightKey struct {
	cacheKey
	of *catalog.Catalog
}

// flight is one such call.
type flight struct {
	done    chan struct{} // closed when it has landed; what follows is set before
	result  json.RawMessage
	left    bool // its agent went away
	waiting int  // guarded by flights.mu
}

// join returns the flight of a key, and whether it is the caller's own: then the
// caller makes the call and lands it.
func (s *flights) join(key flightKey) (f *flight, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.flying[key]; f != nil {
		f.waiting++
		return f, false
	}
	if s.flying == nil {
		s.flying = map[flightKey]*flight{}
	}
	f = &flight{done: make(chan struct{})}
	s.flying[key] = f
	return f, true
}

// awaited reports whether a caller has waited for f so far.
func (s *flights) awaited(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.waiting > 0
}

// land ends a flight with a result to share, which nobody changes any more, or
// nil. Only the first landing counts.
func (s *flights) land(key flightKey, f *flight, result json.RawMessage, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying[key] != f {
		return // it has landed
	}
	delete(s.flying, key)
	f.result, f.left = result, left
	close(f.done)
}

// wait waits until f has landed or c's agent goes away. Without a result and an
// error the call is still to be made, through join again where again says so.
func (f *flight) wait(ctx context.Context, c *Call) (result json.RawMessage, again bool, err error) {
	select {
	case <-f.done:
		return f.result, f.left, nil
	case <-ctx.Done():
		return nil, false, Classify(ctx, c.Entry.Upstream, ctx.Err())
	}
}
