package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/office"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/internal/store"
)

// Node returns this process as a node of the gateways that share the store.
func (s *Store) Node() *cluster.Node { return s.node }

// clusterFigures returns the figures of a node, nil if the gateway is one node.
func (s *Store) clusterFigures() func() metrics.ClusterFigures {
	if s.Lasts() != store.Cluster {
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
	return e.Store.ids.Open() + e.state.Others()
}

// states returns how agents' states name this node.
func (s *Store) states() *bridge.Nodes {
	return &bridge.Nodes{Inc: s.node.Inc, Keys: s.Key().Secrets("states"), Once: s.once}
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

// defaultCluster is the name of a cluster that has none.
const defaultCluster = "weir"

// offices returns what a hub shares with those of other nodes, and the bodies of its messages and the connections for
// them; nil if the gateway is one node. The caller closes the connections after the hub.
func (s *Store) offices(log *slog.Logger) (*roster.Shared, *roster.Bodies, *link.Messages) {
	if s.Lasts() != store.Cluster {
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
		Bus: s.Bus(), Process: roster.NodeOf(name), Gone: node.Gone, Logger: log,
		Dial: func(ctx context.Context, inc string) (net.Conn, error) {
			return node.Link().Open(ctx, inc, office.MessagePath, office.MessageProtocol)
		},
	})
	return roster.NewShared(roster.Options{Docs: s.docs, Bus: s.Bus(), Direct: conns, Node: node, Admitted: func() bool { return !cluster.Apart(node) }, Drained: drained, Name: name, Bodies: bodies, Logger: log}), bodies, conns
}

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
