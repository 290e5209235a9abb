package dispatch

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/flow"
)

// flights are the calls of one cache that are in flight. An equal call of the same principal waits
// for the first one:
//
//	first ──▶ upstream ─────────▶ result ─▶ land ─┬─▶ first
//	equal ──▶ wait ───────────────────────────────┴─▶ equal, a cache hit
//
// A waiting caller gets no progress, as with any answer of the cache, and may give up by itself. If
// the first call has no result to share (it failed, or the server asked its agent something), the
// others make their own calls. If the first caller disconnects, another caller becomes the first.
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
	key     flightKey
	done    chan struct{} // closed when it has landed; the fields below are set before
	result  json.RawMessage
	label   flow.Label
	left    bool // its agent has disconnected
	waiting int  // guarded by flights.mu
}

// join returns the flight of a key. If mine is true, the caller must make the call and land the
// flight.
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
	f = &flight{key: key, done: make(chan struct{})}
	s.flying[key] = f
	return f, true
}

// awaited reports whether a caller has waited for f so far.
func (s *flights) awaited(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.waiting > 0
}

// land ends a flight with a result to share, which must not be changed afterwards, or with nil.
// Only the first call of land counts.
func (s *flights) land(f *flight, result json.RawMessage, label flow.Label, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying[f.key] != f {
		return // it has landed
	}
	delete(s.flying, f.key)
	f.result, f.label, f.left = result, label, left
	close(f.done)
}

// wait waits until f has landed or c's agent disconnects. Without a result and an error, the caller
// must make the call; if again is true, through join.
func (f *flight) wait(ctx context.Context, c *Call) (result json.RawMessage, again bool, err error) {
	select {
	case <-f.done:
		return f.result, f.left, nil
	case <-ctx.Done():
		return nil, false, Classify(ctx, c.Entry.Upstream, ctx.Err())
	}
}
