package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

const (
	// quickOpen is how long the start waits for a shared store: the other members may be starting, too. The node then
	// serves what needs nothing of the store.
	quickOpen = 3 * time.Second
	// joinTime is how long the start waits for the cluster when the store has answered.
	joinTime = time.Minute
	// openAgain is the wait between attempts to open a store that did not answer at the start.
	openAgain = 250 * time.Millisecond
	// sayAgain is how often the log says that a node has no store yet.
	sayAgain = time.Minute
	// blobsSuffix ends the name of the bucket for copies of results.
	blobsSuffix = "_blobs"
)

// shared is the part of a Store that other gateways use, too.
type shared struct {
	conn *nats.Conn
	docs *natsstore.Docs
	bus  *natsstore.Bus
	// blobs are for copies of results; nil keeps none.
	blobs store.Blobs
	// opening ends when a store that did not answer at the start is open; end stops it.
	opening sync.WaitGroup
	end     context.CancelFunc // nil if the store has answered at the start
}

// openShared opens the documents and messages of a cluster.
func (s *Store) openShared(ctx context.Context, c *config.Config, log *slog.Logger) error {
	key, old := c.Cluster.Keys()
	if key == nil {
		return errors.New("cluster.key is missing")
	}
	conn, err := natsstore.DialLater(servers(c, log))
	if err != nil {
		return err
	}
	s.shared.conn = conn
	name := c.Cluster.Name
	s.name = name
	o := natsstore.Options{
		Bucket: "weir_" + name, Changes: "weir." + name + ".d", MaxBytes: int64(c.Store.MaxBytes), Replicas: c.Store.Replicas, Patience: quickOpen,
	}
	copies := o
	copies.Bucket += blobsSuffix
	s.shared.bus = natsstore.NewBus(conn)
	authority := link.NewAuthority(c.Cluster.Node, key, old, nil)
	listener, err := link.Listen(ctx, c.Cluster.Listen)
	if err != nil {
		return fmt.Errorf("cluster.listen: other nodes cannot reach this one: %w", err)
	}
	s.link, s.trust = listener, authority.TLS()
	var docs store.Docs
	joining, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	opened, _, err := natsstore.Open(ctx, conn, o)
	switch {
	case err == nil:
		docs, s.shared.docs = opened, opened
		if c.Artifacts.Backup {
			if err := s.shared.openBlobs(ctx, conn, copies, log); err != nil {
				return fmt.Errorf("NATS has no place for copies of results (artifacts.backup): %w", err)
			}
		}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, natsstore.ErrSetting):
		return fmt.Errorf("this node cannot join the cluster %q: %w", name, err)
	default:
		log.Warn("the store does not answer yet: this node serves what needs nothing of it, and joins the cluster later", "err", natsstore.Reason(conn, err))
		docs = s.shared.later(conn, o, c.Artifacts.Backup, copies, log)
		cancel()
	}
	err = s.join(joining, docs, key.Seal(old...), cluster.Options{
		Bus: s.shared.bus, Name: c.Cluster.Node, URL: "https://" + advertised(&c.Cluster, listener), TLS: authority.TLS(), Late: true, Logger: log,
	})
	if err != nil {
		return fmt.Errorf("NATS does not take this node into the cluster %q: %w", name, err)
	}
	return nil
}

// later opens a store that has not answered, in the background, and returns its documents, which come then.
func (h *shared) later(conn *nats.Conn, o natsstore.Options, backup bool, copies natsstore.Options, log *slog.Logger) store.Docs {
	docs, blobs := &store.LateDocs{}, &store.LateBlobs{}
	if backup {
		h.blobs = blobs
	}
	h.background(conn, log, func(ctx context.Context, try *attempts) {
		for {
			opened, _, err := natsstore.Open(ctx, conn, o)
			if err == nil {
				h.docs = opened
				docs.Come(opened)
				log.Info("the store answers")
				break
			}
			if !try.again(ctx, "this node still has no store", err) {
				return
			}
		}
		if backup {
			try.openBlobs(ctx, copies, blobs)
		}
	})
	return docs
}

// openBlobs opens the copies of results: now, or in the background if the store does not answer in time. The error says
// that the store refuses a setting.
func (h *shared) openBlobs(ctx context.Context, conn *nats.Conn, copies natsstore.Options, log *slog.Logger) error {
	opened, err := natsstore.OpenBlobs(ctx, conn, copies)
	switch {
	case err == nil:
		h.blobs = opened
		return nil
	case errors.Is(err, natsstore.ErrSetting), ctx.Err() != nil:
		return err
	}
	log.Warn(noCopies, "err", natsstore.Reason(conn, err))
	blobs := &store.LateBlobs{}
	h.blobs = blobs
	h.background(conn, log, func(ctx context.Context, try *attempts) { try.openBlobs(ctx, copies, blobs) })
	return nil
}

// background runs f, whose context ends with the Store.
func (h *shared) background(conn *nats.Conn, log *slog.Logger, f func(ctx context.Context, try *attempts)) {
	ctx, cancel := context.WithCancel(context.Background())
	h.end = cancel
	h.opening.Go(func() { f(ctx, &attempts{conn: conn, log: log}) })
}

const noCopies = "the store has no place for copies of results yet (artifacts.backup)"

// attempts are those to open a store.
type attempts struct {
	conn *nats.Conn
	log  *slog.Logger
	said string // the last message, and when it was
	at   time.Time
}

// again waits, and reports whether another attempt is due. It says why the last one failed.
func (a *attempts) again(ctx context.Context, what string, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	err = natsstore.Reason(a.conn, err)
	if text := what + err.Error(); text != a.said || time.Since(a.at) >= sayAgain {
		a.said, a.at = text, time.Now()
		a.log.Warn(what, "err", err)
	}
	select {
	case <-time.After(openAgain):
		return true
	case <-ctx.Done():
		return false
	}
}

// openBlobs opens the copies of results.
func (a *attempts) openBlobs(ctx context.Context, o natsstore.Options, blobs *store.LateBlobs) {
	for {
		opened, err := natsstore.OpenBlobs(ctx, a.conn, o)
		if err == nil {
			blobs.Come(opened)
			return
		}
		if !a.again(ctx, noCopies, err) {
			return
		}
	}
}

// advertised returns the address at which other nodes reach this one. A port that the system has chosen is
// known by the listener alone.
func advertised(c *config.Cluster, l net.Listener) string {
	host, port, _ := net.SplitHostPort(c.Advertise) // the configuration has checked it
	if port != "0" {
		return c.Advertise
	}
	at := l.Addr().(*net.TCPAddr)
	if !at.IP.IsUnspecified() {
		host = at.IP.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// servers returns the NATS servers of a configuration.
func servers(c *config.Config, log *slog.Logger) natsstore.Servers {
	k := &c.Store
	return natsstore.Servers{URLs: k.URLs(), Creds: k.Creds, CA: k.CA, Cert: k.Cert, Key: k.Key, Logger: log}
}

// LookAtStore asks the NATS servers of a configuration whether they take this gateway, until ctx ends. It changes nothing
// there. refused says that the servers answer, and that the gateway's credentials, TLS or account are wrong.
func LookAtStore(ctx context.Context, c *config.Config) (refused bool, err error) {
	err = natsstore.Look(ctx, servers(c, nil))
	return err != nil && !errors.Is(err, natsstore.ErrAway), err
}

func (h *shared) close() {
	if h.end != nil {
		h.end()
		h.opening.Wait()
	}
	if h.bus != nil {
		h.bus.Close()
	}
	if h.docs != nil {
		h.docs.Close()
	}
	if h.conn != nil {
		h.conn.Close()
	}
}
