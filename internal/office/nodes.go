package office

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/internal/store"
)

// shareOffices makes a hub share its offices with the hubs of other nodes: their state, the store for large
// message bodies, and the connections between hubs. On a single node it changes nothing. The caller closes the
// connections after the hub.
func (o *Offices) shareOffices() *roster.Shared {
	n := &o.needs
	if n.Store.Lasts() != store.Cluster {
		return nil
	}
	node := n.Node
	o.bodies = &roster.Bodies{Room: n.Memory.Account("hub"), Fetch: func(ctx context.Context, inc, path string, size int64) ([]byte, error) {
		return fetchBody(ctx, node, inc, path, size)
	}}
	drained := make(chan struct{})
	cluster.OnDrain(node, func() { close(drained) })
	o.direct = link.NewMessages(link.MessageOptions{
		Bus: n.Store.Bus(), Process: roster.NodeOf(n.Cluster), Gone: node.Gone, Room: n.Memory.Account("hub"), Logger: o.log,
		Dial: func(ctx context.Context, inc string) (net.Conn, error) {
			return node.Link().Open(ctx, inc, messagePath, messageProtocol)
		},
	})
	return roster.NewShared(roster.Options{
		Docs: n.Docs, Bus: n.Store.Bus(), Direct: o.direct, Node: node, Admitted: func() bool { return !cluster.Apart(node) },
		Drained: drained, Name: n.Cluster, Bodies: o.bodies, Logger: o.log,
	})
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
