package roster

import (
	"context"
	"errors"
	"math/rand/v2"
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
				if dead, err = s.lookFor(ctx, inc); err != nil {
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
