package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/hop"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of the connections to one agent.
const (
	dialTimeout  = 10 * time.Second
	idleTimeout  = 90 * time.Second
	maxIdleConns = 64
)

// transports are the ways to agents that have registered themselves:
//
//	request ─▶ pool of this agent ─▶ Rule as it is now ─▶ resolved once ─▶ connected to that address
//
// Each agent has a pool of its own, so that a connection that one agent's rule
// allowed never carries another agent's requests.
type transports struct {
	r *Registry

	mu     sync.Mutex // guards below
	byName map[string]*hop.Transport
}

// Transport returns the transport for requests to an agent that has registered itself, nil for any
// other name. It works while the name is registered, and refuses to connect afterwards. It uses no
// proxy, which would resolve the host again. It is cheap.
func (r *Registry) Transport(name string) http.RoundTripper {
	r.mu.Lock()
	_, ok := r.leases[name]
	ok = ok && !r.routed(name)
	r.mu.Unlock()
	if !ok || r.o.Owner(name) != "" {
		return nil
	}
	return r.ways.of(name)
}

func (t *transports) of(name string) *hop.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	pool := t.byName[name]
	if pool == nil {
		pool = hop.New(&http.Transport{
			DialContext: func(ctx context.Context, network, server string) (net.Conn, error) {
				return t.dial(ctx, name, network, server)
			},
			TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        maxIdleConns,
			MaxIdleConnsPerHost: maxIdleConns,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true,
			WriteBufferSize:     16 << 10,
			ReadBufferSize:      16 << 10,
		})
		t.byName[name] = pool
	}
	return pool
}

func (t *transports) dial(ctx context.Context, name, network, server string) (net.Conn, error) {
	rule, ok := t.r.Rule(name)
	if !ok && t.r.operators(name) {
		// The operator has named the same agent meanwhile, and the upstream that
		// holds this transport is kept.
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, server)
	}
	if !ok {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "the agent %q is not registered any more", name)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := address.Dialer{Rule: rule, Lookup: t.r.o.Lookup}
	conn, err := d.DialContext(ctx, network, server)
	if errors.Is(err, address.ErrRefused) {
		err = &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: fmt.Sprintf("the agent %q is not connected to: %v", name, err), Err: err}
	}
	return conn, err
}

// forget closes the connections to an agent that has moved or left.
func (t *transports) forget(name string) {
	t.mu.Lock()
	pool := t.byName[name]
	delete(t.byName, name)
	t.mu.Unlock()
	if pool != nil {
		pool.CloseIdleConnections()
	}
}

// CloseIdleConnections closes the connections to agents that carry no request now.
// The next request connects again, under the rules that hold then.
func (r *Registry) CloseIdleConnections() {
	r.ways.mu.Lock()
	defer r.ways.mu.Unlock()
	for _, pool := range r.ways.byName {
		pool.CloseIdleConnections()
	}
}
