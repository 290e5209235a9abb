package roster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

const (
	// sweepDelay is how long the members of a node that is gone may stay until all documents are read. The
	// nodes that have members in an office drop them earlier.
	sweepDelay = 5 * time.Second
	// sweepSpread bounds the random time on top, so that the first node does the work of all.
	sweepSpread = 10 * time.Second
)

// sweepLater asks for a sweep.
func (s *Shared) sweepLater() {
	select {
	case s.sweeps <- struct{}{}:
	default: // one is due
	}
}

// sweepAlways drops the members of nodes that are gone from the offices that no node follows: after the
// start, and after each end of a node.
func (s *Shared) sweepAlways() {
	for s.Pause(sweepDelay + rand.N(sweepSpread)) {
		select { // this sweep is for all that was asked until now
		case <-s.sweeps:
		default:
		}
		if err := s.sweep(s.ctx); err != nil {
			s.log.Debug("offices of nodes that are gone are looked for again", "err", err)
			continue
		}
		select {
		case <-s.sweeps:
		case <-s.ctx.Done():
			return
		}
	}
}

// sweep reads the documents of all offices. It leaves out those that this build cannot read. An error says
// that something was left.
func (s *Shared) sweep(ctx context.Context) error {
	var left error
	asked := map[string]bool{} // nodes: are they gone?
	for d, err := range s.o.Docs.List(ctx, store.OfficeKeys) {
		if err != nil {
			return err
		}
		o, err := decode(d.Value, nil)
		if err != nil {
			continue
		}
		var gone []string
		for _, inc := range o.Spans() {
			dead, known := asked[inc]
			if !known {
				if dead, err = s.ended.has(ctx, inc); err != nil {
					return err
				}
				asked[inc] = dead
			}
			if dead {
				gone = append(gone, inc)
			}
		}
		if len(gone) == 0 {
			continue
		}
		_, _, err = s.Change(ctx, o.ID, func(o *Office) (changed bool, err error) {
			for _, inc := range gone {
				changed = o.Drop(inc) || changed
			}
			return changed, nil
		})
		if errors.Is(err, store.ErrUnavailable) {
			return err
		}
		if err != nil {
			left = err // one office does not keep the others
		}
	}
	return left
}

// endings remembers the nodes that are gone for good: a node never comes back under its INC. It is safe for concurrent
// use.
type endings struct {
	docs    store.Docs
	unknown func(inc string) bool // reports whether this node knows of no such node now

	mu sync.Mutex      // guards below
	of map[string]bool // by INC; bounded by maxDead
}

// note remembers that a node is gone.
func (e *endings) note(inc string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.of) >= maxDead {
		clear(e.of)
	}
	e.of[inc] = true
}

// has reports whether a node is gone for good. It asks the store about a node that is not known.
func (e *endings) has(ctx context.Context, inc string) (bool, error) {
	e.mu.Lock()
	gone := e.of[inc]
	e.mu.Unlock()
	if gone || !e.unknown(inc) {
		return gone, nil
	}
	doc, err := e.docs.Get(ctx, store.NodeKeys+inc)
	if err != nil || doc.Rev != 0 {
		return false, err
	}
	e.note(inc)
	return true, nil
}
