package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/clusterkey"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsserver"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

const (
	// quickOpen is how long the start waits for a shared store before it says so, and slowOpen how long
	// it waits in all: the other members may be starting, too.
	quickOpen = 3 * time.Second
	slowOpen  = time.Minute
	// blobsSuffix ends the name of the bucket for copies of results.
	blobsSuffix = "_blobs"
	// embeddedReplicas is the number of copies in the gateways' own servers, of which there are three
	// or five.
	embeddedReplicas = 3
)

// shared is the part of a Store that other gateways use, too.
type shared struct {
	conn *nats.Conn // of a NATS that runs elsewhere; nil for one in this process
	docs *natsstore.Docs
	bus  *natsstore.Bus
	// blobs are for copies of results; nil keeps none.
	blobs store.Blobs
}

// openShared opens the documents and messages of a cluster.
func (s *Store) openShared(ctx context.Context, c *config.Config, log *slog.Logger) error {
	key, old := c.Cluster.Keys()
	if key == nil {
		return errors.New("cluster.key is missing")
	}
	conn, where, err := s.connect(ctx, c, key, old, log)
	if err != nil {
		return err
	}
	name := c.Cluster.Name
	s.name = name
	o := natsstore.Options{
		Bucket: "weir_" + name, Changes: "weir." + name + ".d", MaxBytes: int64(c.Store.MaxBytes), Replicas: c.Store.Replicas, Patience: quickOpen,
	}
	if c.Store.Folder() != "" && o.Replicas == 0 {
		o.Replicas = embeddedReplicas
	}
	docs, _, err := natsstore.Open(ctx, conn, o)
	if err != nil {
		log.Warn("the store does not answer yet; waiting for it", "store", where, "err", err)
		o.Patience = slowOpen
		if docs, _, err = natsstore.Open(ctx, conn, o); err != nil {
			return fmt.Errorf("%s does not answer, so this node cannot join the cluster %q: %w", where, name, err)
		}
	}
	s.shared.docs, s.shared.bus = docs, natsstore.NewBus(conn)
	if c.Artifacts.Backup {
		copies := o
		copies.Bucket += blobsSuffix
		if s.shared.blobs, err = natsstore.OpenBlobs(ctx, conn, copies); err != nil {
			return fmt.Errorf("%s has no place for copies of results (artifacts.backup): %w", where, err)
		}
	}
	authority := clusterkey.NewAuthority(c.Cluster.Node, key, old, nil)
	listener, err := cluster.Listen(ctx, c.Cluster.Listen)
	if err != nil {
		return fmt.Errorf("cluster.listen: other nodes cannot reach this one: %w", err)
	}
	s.link, s.trust = listener, authority.TLS()
	joining, cancel := context.WithTimeout(ctx, slowOpen)
	defer cancel()
	err = s.join(joining, docs, key.Seal(old...), cluster.Options{
		Bus: s.shared.bus, Name: c.Cluster.Node, URL: "https://" + advertised(&c.Cluster, listener), TLS: authority.TLS(), Logger: log,
	})
	if err != nil {
		return fmt.Errorf("%s does not take this node into the cluster %q: %w", where, name, err)
	}
	return nil
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

// connect returns a connection to the NATS of a configuration, and what that is for messages.
func (s *Store) connect(ctx context.Context, c *config.Config, key *clusterkey.Key, old []*clusterkey.Key, log *slog.Logger) (*nats.Conn, string, error) {
	if dir := c.Store.Folder(); dir != "" {
		members, err := membership(&c.Cluster, key, old)
		if err != nil {
			return nil, "", err
		}
		s.server, err = natsserver.Open(natsserver.Options{
			Dir: dir, MaxBytes: int64(c.Store.MaxBytes), Late: c.Store.Sync == config.SyncInterval, Cluster: members, Logger: log,
		})
		if err != nil {
			return nil, "", err
		}
		return s.server.Conn(), "the majority of cluster.members", nil
	}
	ctx, cancel := context.WithTimeout(ctx, slowOpen)
	defer cancel()
	k := &c.Store
	conn, err := natsstore.Dial(ctx, natsstore.Servers{URLs: k.URLs(), Creds: k.Creds, CA: k.CA, Cert: k.Cert, Key: k.Key, Logger: log})
	s.shared.conn = conn
	return conn, "NATS", err
}

// membership returns this node's place among the members.
func membership(c *config.Cluster, key *clusterkey.Key, old []*clusterkey.Key) (*natsserver.Cluster, error) {
	nodes, self := c.Nodes()
	m := &natsserver.Cluster{Name: c.Name, Node: c.Node, TLS: clusterkey.NewAuthority(c.Node, key, old, nil).TLS(), NKey: key.NKey(), Sign: key.Sign}
	for i, node := range nodes {
		if i != self {
			m.Members = append(m.Members, node.Address)
			continue
		}
		host, port, err := net.SplitHostPort(node.Address)
		if err != nil {
			return nil, err
		}
		if net.ParseIP(host) == nil {
			host = "0.0.0.0" // the name that others use may be of a balancer or another network
		}
		if m.Listen, err = net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (h *shared) close() {
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
