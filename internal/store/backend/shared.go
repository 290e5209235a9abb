package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

const (
	// quickOpen is how long the start waits for a shared store: the other members may be starting, too. The node then
	// serves what needs nothing of the store.
	quickOpen = 3 * time.Second
	// openAgain is the wait between attempts to open a store that did not answer at the start.
	openAgain = 250 * time.Millisecond
	// sayAgain is how often the log says that a node has no store yet.
	sayAgain = time.Minute
	// blobsSuffix ends the name of the bucket for copies of results.
	blobsSuffix = "_blobs"
)

const noCopies = "the store has no place for copies of results yet (artifacts.backup)"

// shared is a store that several gateways use.
type shared struct {
	store.Docs
	conn  *nats.Conn
	bus   *natsstore.Bus
	blobs store.Blobs
	key   *seal.Key
	log   *slog.Logger

	ctx     context.Context // ends with Close
	end     context.CancelFunc
	opening sync.WaitGroup  // of what did not answer at the start
	docs    *natsstore.Docs // nil until the servers have answered; opening guards it
}

var _ store.Store = (*shared)(nil)

// openShared opens a store in NATS. One that does not answer in time is opened in the background.
func openShared(ctx context.Context, c Config) (_ store.Store, err error) {
	conn, err := natsstore.DialLater(c.Servers)
	if err != nil {
		return nil, err
	}
	s := &shared{conn: conn, bus: natsstore.NewBus(conn), blobs: store.NoBlobs{}, key: c.Key, log: c.Logger}
	s.ctx, s.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	o := natsstore.Options{
		Bucket: "weir_" + c.Cluster, Changes: "weir." + c.Cluster + ".d", MaxBytes: c.MaxBytes, Replicas: c.Replicas, Patience: quickOpen,
	}
	docs, _, err := natsstore.Open(ctx, conn, o)
	switch {
	case err == nil:
		s.Docs, s.docs = docs, docs
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, natsstore.ErrSetting):
		return nil, fmt.Errorf("this node cannot join the cluster %q: %w", c.Cluster, err)
	default:
		c.Logger.Warn("the store does not answer yet: this node serves what needs nothing of it, and joins the cluster later", "err", natsstore.Reason(conn, err))
		s.openLater(o, c.Copies)
		return s, nil
	}
	if !c.Copies {
		return s, nil
	}
	o.Bucket += blobsSuffix
	blobs, err := natsstore.OpenBlobs(ctx, conn, o)
	switch {
	case err == nil:
		s.blobs = blobs
	case errors.Is(err, natsstore.ErrSetting), ctx.Err() != nil:
		return nil, fmt.Errorf("NATS has no place for copies of results (artifacts.backup): %w", err)
	default:
		c.Logger.Warn(noCopies, "err", natsstore.Reason(conn, err))
		late := &store.LateBlobs{}
		s.blobs = late
		s.copyLater(o, late)
	}
	return s, nil
}

// openLater opens the documents in the background, and then the copies.
func (s *shared) openLater(o natsstore.Options, copies bool) {
	docs, blobs := &store.LateDocs{}, &store.LateBlobs{}
	if s.Docs = docs; copies {
		s.blobs = blobs
	}
	s.later("this node still has no store", func() error {
		opened, _, err := natsstore.Open(s.ctx, s.conn, o)
		if err != nil {
			return err
		}
		s.docs = opened
		docs.Come(opened)
		s.log.Info("the store answers")
		if copies {
			o.Bucket += blobsSuffix
			s.copyLater(o, blobs)
		}
		return nil
	})
}

// copyLater opens the copies in the background.
func (s *shared) copyLater(o natsstore.Options, blobs *store.LateBlobs) {
	s.later(noCopies, func() error {
		opened, err := natsstore.OpenBlobs(s.ctx, s.conn, o)
		if err == nil {
			blobs.Come(opened)
		}
		return err
	})
}

// later calls open in the background until it succeeds or the store ends. The log says why it has to.
func (s *shared) later(waits string, open func() error) {
	s.opening.Go(func() {
		var said string
		var at time.Time
		for {
			err := open()
			if err == nil || s.ctx.Err() != nil {
				return
			}
			err = natsstore.Reason(s.conn, err)
			if text := err.Error(); text != said || time.Since(at) >= sayAgain {
				said, at = text, time.Now()
				s.log.Warn(waits, "err", err)
			}
			select {
			case <-time.After(openAgain):
			case <-s.ctx.Done():
				return
			}
		}
	})
}

// Blobs implements store.Store.
func (s *shared) Blobs() store.Blobs { return s.blobs }

// Bus implements store.Store.
func (s *shared) Bus() store.Bus { return s.bus }

// Key implements store.Store.
func (s *shared) Key() *seal.Key { return s.key }

// Lasts implements store.Store.
func (*shared) Lasts() store.Lasts { return store.Cluster }

// Events returns a stream of events of all gateways. It does not ask the servers.
func (s *shared) Events(o natsstore.EventsOptions) (*natsstore.Events, error) {
	return natsstore.NewEvents(s.conn, o)
}

// Close implements store.Store.
func (s *shared) Close() {
	s.end()
	s.opening.Wait()
	s.bus.Close()
	if s.docs != nil {
		s.docs.Close()
	}
	s.conn.Close()
}
