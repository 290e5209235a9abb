package link

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// pathExchange is where another node starts a connection for small requests, and exchangeProtocol
// the protocol that is spoken there.
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
	l       *Link
	inc     string
	frames  *exchangeClient
	refused atomic.Bool // the node takes no frames: it has another INC by now, and says so by HTTP
}

// exchanges returns the client for small requests to a node. It is HTTP's after Close.
func (l *Link) exchanges(inc string) *exchanger {
	e := &l.small
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.to[inc]; x != nil {
		return x
	}
	x := &exchanger{l: l, inc: inc}
	x.frames = newExchangeClient(func(ctx context.Context) (net.Conn, error) {
		return l.Open(ctx, inc, pathExchange, exchangeProtocol)
	})
	if e.closed {
		x.refused.Store(true)
		return x
	}
	for other, old := range e.to {
		if _, there := l.o.Peer(other); !there {
			old.frames.Close()
			delete(e.to, other)
		}
	}
	if e.to == nil {
		e.to = map[string]*exchanger{}
	}
	e.to[inc] = x
	return x
}

// drop closes the connections for small requests to a node. Later requests make new ones.
func (e *exchanges) drop(inc string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.to[inc]; x != nil {
		x.frames.Close()
		delete(e.to, inc)
	}
}

// close closes the connections for small requests.
func (e *exchanges) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, x := range e.to {
		x.frames.Close()
	}
}

// RoundTrip sends a small request.
func (x *exchanger) RoundTrip(r *http.Request) (*http.Response, error) {
	if !x.refused.Load() {
		resp, err := x.frames.RoundTrip(r)
		if !errors.Is(err, errRefused) || r.Context().Err() != nil {
			return resp, err
		}
		x.refused.Store(true)
		if r.GetBody != nil {
			r.Body, _ = r.GetBody() // it is in memory
		}
	}
	return x.l.sendLarge(x.inc, r)
}
