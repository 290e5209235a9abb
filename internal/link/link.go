package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/weir-mcp/weir/internal/net/hop"
)

// Peer is a node.
type Peer struct {
	Inc  string // of this life of the node
	Name string // for people
	URL  string // where other nodes reach it; "" if they do not
}

// Options configures a Link.
type Options struct {
	// Inc returns the INC of this node, Peers all nodes, and Peer the node with an INC. They are called often.
	Inc   func() string
	Peers func() []Peer
	Peer  func(inc string) (Peer, bool)
	// Lives returns nil if a node that could not be dialled lives. Requests to it go through a third node then.
	Lives func(ctx context.Context, inc string) error
	// Answer answers the requests that nodes make for themselves, in the name of no caller, and reports whether a
	// request is one of them.
	Answer func(w http.ResponseWriter, r *http.Request) bool
	// Ping is a path that Answer answers at once.
	Ping string
	// TLS is for connections to other nodes. Nil does not encrypt, for tests.
	TLS *tls.Config
	// Dial connects to other nodes. Nil dials TCP.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
}

// Link sends requests to other nodes and serves theirs. It is safe for concurrent use.
type Link struct {
	o       Options
	large   *hop.Transport
	small   exchanges
	callers callers

	ctx  context.Context // ends with End
	end  context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex          // guards below
	detours map[string]struct{} // nodes that are reached through a third one; see detour
}

// New returns a Link without connections. The caller ends and closes it.
func New(o Options) *Link {
	if o.Dial == nil {
		o.Dial = Dialer().DialContext
	}
	l := &Link{o: o, large: newTransport(o.Dial, o.TLS), callers: newCallers(), detours: map[string]struct{}{}}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// End ends the work in the background, and waits for it. Requests still go to other nodes.
func (l *Link) End() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.work.Wait()
}

// Close closes the idle connections. Those that carry a request are closed after it.
func (l *Link) Close() {
	l.End()
	l.large.CloseIdleConnections()
	l.small.close()
}

// RoundTrip sends a request to the node with an INC. An error that is ErrNotSent says that the node has got
// nothing. A node that lives and cannot be dialled is reached through a third one. The body of r is closed
// if nothing was sent as well.
func (l *Link) RoundTrip(inc string, r *http.Request) (*http.Response, error) {
	own := r.WithContext(r.Context())
	own.Header = maps.Clone(r.Header)
	return l.Carry(inc, own)
}

// Carry is RoundTrip for a request whose headers may be changed.
func (l *Link) Carry(inc string, r *http.Request) (*http.Response, error) {
	around := hops(r.Header) < maxHops-1 && (r.Body == nil || r.Body == http.NoBody || r.GetBody != nil) // it may go through a third one
	address(l.o.Inc(), inc, r)
	resp, err := (*http.Response)(nil), fmt.Errorf("%w: the peer link of %s does not answer, and no other node passes the request on", ErrNotSent, inc)
	if !around || !l.Detoured(inc) {
		resp, err = l.send(inc, r)
		if err == nil || !errors.Is(err, ErrNotSent) || !around || r.Context().Err() != nil {
			return resp, err
		}
		if failed := l.o.Lives(r.Context(), inc); failed != nil {
			return nil, err
		}
		l.Detour(inc)
	}
	for _, p := range l.o.Peers() {
		if p.Inc == inc || p.Inc == l.o.Inc() || p.URL == "" {
			continue
		}
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			if again.Body, err = r.GetBody(); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
			}
		}
		if resp, err = l.send(p.Inc, again); err == nil {
			err = unreached(resp)
		}
		if !errors.Is(err, ErrNotSent) {
			return resp, err
		}
	}
	return nil, err
}

// Direct sends a request to the node with an INC, and never through a third one. The headers of r may be changed.
func (l *Link) Direct(inc string, r *http.Request) (*http.Response, error) {
	address(l.o.Inc(), inc, r)
	return l.send(inc, r)
}

// unreached returns the error of a third node that could not pass a request on, and closes its response.
func unreached(resp *http.Response) error {
	said := resp.Header.Get(headerUnreached)
	if said == "" || resp.StatusCode != http.StatusBadGateway {
		return nil
	}
	_ = resp.Body.Close()
	if said == unreachedUnsent {
		return fmt.Errorf("%w: a third node does not reach it either", ErrNotSent)
	}
	return errors.New("a third node lost the connection to it")
}

// find returns the URL of a node that can be reached.
func (l *Link) find(inc string) (*url.URL, error) {
	p, ok := l.o.Peer(inc)
	if !ok || p.URL == "" {
		return nil, fmt.Errorf("%w: the node %s is gone", ErrNotSent, inc)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: the node %s has a URL that cannot be read: %w", ErrNotSent, p.Name, err)
	}
	return u, nil
}

// send sends a request that has its headers to a node: as a frame if it is small.
func (l *Link) send(via string, r *http.Request) (*http.Response, error) {
	if !isSmall(r) {
		return l.sendLarge(via, r)
	}
	if _, err := l.find(via); err != nil {
		return nil, err
	}
	return l.exchanges(via).RoundTrip(r)
}

// sendLarge is send by HTTP.
func (l *Link) sendLarge(via string, r *http.Request) (*http.Response, error) {
	u, err := l.find(via)
	if err != nil {
		return nil, err
	}
	out := r.WithContext(r.Context())
	out.RequestURI = ""
	at := *r.URL
	at.Scheme, at.Host, out.URL = u.Scheme, u.Host, &at
	if l.o.TLS == nil {
		at.Scheme = "http"
	}
	return l.large.RoundTrip(out)
}
