package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/framed"
)

// pathExchange is where another node starts a connection for small requests, and exchangeProtocol
// what is spoken there.
const (
	pathExchange     = "/peer/v1/exchange"
	exchangeProtocol = "weir-exchange/1"
)

// exchanges are the clients for small requests to other nodes, by INC. They are bounded by the nodes that are there.
type exchanges struct {
	mu     sync.Mutex // guards below
	to     map[string]*exchanger
	closed bool
}

// exchanger carries small requests to one node.
type exchanger struct {
	client  *framed.Client
	refused atomic.Bool // the node is of an older build, and gets all requests by HTTP
}

// exchangesWith returns what carries small requests to a node, nil if HTTP does.
func exchangesWith(n *Node, inc string) *exchanger {
	e := &n.exchanges
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.to[inc]
	switch {
	case e.closed || x != nil && x.refused.Load():
		return nil
	case x != nil:
		return x
	}
	for other, old := range e.to {
		if _, there := n.peer(other); !there {
			old.client.Close()
			delete(e.to, other)
		}
	}
	x = &exchanger{}
	x.client = framed.NewClient(func(ctx context.Context) (net.Conn, error) {
		conn, err := Upgrade(ctx, n, inc, pathExchange, exchangeProtocol)
		if errors.Is(err, errRefused) {
			x.refused.Store(true)
		}
		return conn, err
	})
	if e.to == nil {
		e.to = map[string]*exchanger{}
	}
	e.to[inc] = x
	return x
}

// dropExchanges closes the connections for small requests to a node. Later requests make new ones.
func dropExchanges(n *Node, inc string) {
	e := &n.exchanges
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.to[inc]; x != nil {
		x.client.Close()
		delete(e.to, inc)
	}
}

// closeExchanges closes the connections for small requests.
func closeExchanges(n *Node) {
	e := &n.exchanges
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, x := range e.to {
		x.client.Close()
	}
}

// exchanged sends a small request to a node. ok is false if HTTP must carry it.
func exchanged(n *Node, inc string, r *http.Request) (resp *http.Response, err error, ok bool) {
	if !framed.Takes(r) {
		return nil, nil, false
	}
	x := exchangesWith(n, inc)
	if x == nil {
		return nil, nil, false
	}
	resp, err = x.client.RoundTrip(r)
	if errors.Is(err, framed.ErrNotSent) {
		if errors.Is(err, errRefused) && r.Context().Err() == nil {
			if r.GetBody != nil {
				r.Body, _ = r.GetBody() // it is in memory
			}
			return nil, nil, false
		}
		err = fmt.Errorf("%w: %w", errNotSent, err)
	}
	return resp, err, true
}
