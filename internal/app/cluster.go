package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
)

// Node returns this process as a node of the gateways that share the store.
func (s *Store) Node() *cluster.Node { return s.node }

// Link returns the listener for other nodes, and how they prove that they are nodes; nil if the gateway is
// one node.
func (s *Store) Link() (net.Listener, *tls.Config) {
	return s.link, s.trust
}

// Describe sets what this node tells the others of itself with each renewal.
func (s *Store) Describe(f func() cluster.Self) { s.self.Store(&f) }

// describe returns what Describe has set; nothing before.
func (s *Store) describe() cluster.Self {
	if f := s.self.Load(); f != nil {
		return (*f)()
	}
	return cluster.Self{}
}

// clusterFigures returns the figures of a node, nil if the gateway is one node.
func (s *Store) clusterFigures() func() metrics.ClusterFigures {
	if s.lasts != store.Cluster {
		return nil
	}
	return func() metrics.ClusterFigures {
		f := cluster.Count(s.node)
		return metrics.ClusterFigures{
			Nodes: f.Nodes, Forwarded: f.Forwarded, Adopted: f.Adopted, Broken: f.Broken, Fenced: f.Fenced, Renewals: f.Renewals, Renewing: f.Renewing, Unshared: s.unshared.Load(), Apart: f.Apart, Silence: f.Silence,
		}
	}
}

// OpenSessions returns how many sessions live in this process: those with an id that outlasts it, from their
// handshake on, and others that have used a gateway.
func (e *Engine) OpenSessions() int {
	if e.Store.lasts == store.Process {
		return e.state.Sessions()
	}
	return e.Store.ids.Open() + e.state.Others()
}

// states returns how agents' states name this node, nil if the gateway is one node.
func (s *Store) states() *bridge.Nodes {
	if s.lasts != store.Cluster {
		return nil
	}
	return &bridge.Nodes{Inc: s.node.Inc, Keys: s.key.Secrets("states"), Once: s.once}
}

// onceLife is how long the use of an approval is known: longer than its state lives, whichever clock the nodes have.
const onceLife = 10 * time.Minute

// once implements bridge.Nodes.
func (s *Store) once(ctx context.Context, id string) error {
	own := fmt.Appendf(nil, `{"v":1,"id":%q,"by":%q}`, id, rand.Text()) // ids are base64
	_, err := store.Change(ctx, s.docs, "once."+store.Hash(id), func(doc store.Doc) ([]byte, time.Duration, error) {
		switch {
		case doc.Rev == 0:
			return own, onceLife, nil
		case bytes.Equal(doc.Value, own): // a write whose outcome was not known
			return nil, 0, store.ErrKeep
		}
		return nil, 0, bridge.ErrUsed
	})
	return err
}

// marks returns what names this node in the states of server programs, nil if the gateway is one node.
func (s *Store) marks() upstream.States {
	if s.lasts != store.Cluster {
		return nil
	}
	return bridge.NewMarks(s.states())
}

// join makes this process a node of the cluster that shares a store. Ids of sessions name the node.
func (s *Store) join(ctx context.Context, docs store.Docs, key *seal.Key, o cluster.Options) error {
	s.lasts, o.Docs, o.Self = store.Cluster, docs, s.describe
	s.bus = o.Bus
	node, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	s.node, s.docs, s.key = node, cluster.Docs(node), key
	s.ids = sessionid.New(key, s.docs, o.Logger)
	s.ids.In(s.node.Inc)
	return nil
}

// leave ends the node. Other nodes take over what it owned.
func (s *Store) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	s.node.Close(ctx)
}

// defaultCluster is the name of a cluster that has none.
const defaultCluster = "weir"

// offices returns what a hub shares with those of other nodes, and the bodies of its messages and the connections for
// them; nil if the gateway is one node. The caller closes the connections after the hub.
func (s *Store) offices(log *slog.Logger) (*roster.Shared, *roster.Bodies, *link.Messages) {
	if s.lasts != store.Cluster {
		return nil, nil, nil
	}
	node := s.node
	name := cmp.Or(s.name, defaultCluster)
	bodies := &roster.Bodies{Fetch: func(ctx context.Context, inc, path string, size int64) ([]byte, error) {
		return fetchBody(ctx, node, inc, path, size)
	}}
	drained := make(chan struct{})
	cluster.OnDrain(node, func() { close(drained) })
	conns := link.NewMessages(link.MessageOptions{
		Bus: s.bus, Process: roster.NodeOf(name), Gone: node.Gone, Logger: log,
		Dial: func(ctx context.Context, inc string) (net.Conn, error) {
			return node.Link().Open(ctx, inc, messagePath, messageProtocol)
		},
	})
	return roster.NewShared(roster.Options{Docs: s.docs, Bus: s.bus, Direct: conns, Node: node, Admitted: func() bool { return !cluster.Apart(node) }, Drained: drained, Name: name, Bodies: bodies, Logger: log}), bodies, conns
}

// Messages between hubs go over a connection of the peer link, and over NATS while there is none.
const (
	messagePath     = "/peer/v1/messages"
	messageProtocol = "weir-messages"
)

// fetchBody gets the body of a message from the node that has sent the message.
func fetchBody(ctx context.Context, node *cluster.Node, inc, path string, size int64) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := cluster.Send(node, inc, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != size {
		return nil, fmt.Errorf("status %d with %d bytes for a body of %d bytes", resp.StatusCode, resp.ContentLength, size)
	}
	body := make([]byte, size)
	_, err = io.ReadFull(resp.Body, body)
	return body, err
}
