package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
)

// joinTime is how long Join waits for a store that answers.
const joinTime = time.Minute

// Config says how Join makes a node.
type Config struct {
	// Cluster is the name of the cluster, and Name the node's.
	Cluster, Name string
	// Listen is the address of the peer link, and Advertise the one at which other nodes reach it. Its port may be 0.
	Listen, Advertise string
	// TLS is for both ends of connections between nodes.
	TLS *tls.Config
	// Logger gets what happens to nodes; nil discards it.
	Logger *slog.Logger
}

// Join returns this process as a node of the processes that share a store. The node of a store that no other process
// uses is Solo. The caller closes the node, and the store after it.
func Join(ctx context.Context, s store.Store, c Config) (*Node, error) {
	if s.Lasts() != store.Cluster {
		return Solo(s), nil
	}
	listener, err := link.Listen(ctx, c.Listen)
	if err != nil {
		return nil, fmt.Errorf("cluster.listen: other nodes cannot reach this one: %w", err)
	}
	joining, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	if _, err := s.Get(joining, store.NodeKeys+newInc()); errors.Is(err, store.ErrUnavailable) {
		cancel() // the node joins later
	}
	n, err := Start(joining, Options{
		Docs: s, Bus: s.Bus(), Name: c.Name, URL: "https://" + advertised(c.Advertise, listener), Listener: listener, TLS: c.TLS, Late: true, Logger: c.Logger,
	})
	if err != nil {
		_ = listener.Close() // no node has come
		return nil, fmt.Errorf("NATS does not take this node into the cluster %q: %w", c.Cluster, err)
	}
	return n, nil
}

// advertised returns the address at which other nodes reach a listener. A port that the system has chosen is known by
// the listener only.
func advertised(address string, l net.Listener) string {
	host, port, _ := net.SplitHostPort(address) // the configuration has checked it
	if port != "0" {
		return address
	}
	at := l.Addr().(*net.TCPAddr)
	if !at.IP.IsUnspecified() {
		host = at.IP.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// Listener returns the listener for other nodes and how they prove that they are nodes; nil for a node without one. The
// caller may close the listener; otherwise Close does.
func (n *Node) Listener() (net.Listener, *tls.Config) { return n.o.Listener, n.o.TLS }

// Describe sets what the node tells of itself with each renewal. One goroutine calls f.
func Describe(n *Node, f func() Self) { n.self.Store(&f) }
