// Package memnet is a network in memory, for tests only: a Listener whose connections are pipes.
// Unlike sockets, pipes may be used inside a testing/synctest bubble, so that tests of heartbeats
// and time-outs take no time. A Cut connection behaves like a network that has gone away without a
// word: bytes that are written to it vanish, and nothing comes out of it.
//
//	client ─▶ Listener.DialContext ─▶ pipe ─▶ Listener.Accept ─▶ server
//	                                    │
//	                                  Cut: neither side is told
//
// Pipes do not buffer: a writer waits for the reader, as on a socket with full buffers.
package memnet

import (
	"context"
	"net"
	"sync"
	"time"
)

// A Listener accepts the connections of its own DialContext. It may be used by any goroutine.
type Listener struct {
	incoming chan net.Conn
	done     chan struct{}
	close    sync.Once

	mu    sync.Mutex // guards below
	conns []*conn
}

var _ net.Listener = (*Listener)(nil)

// New returns a listener.
func New() *Listener {
	return &Listener{incoming: make(chan net.Conn), done: make(chan struct{})}
}

// DialContext opens a connection, whatever the address. It fits http.Transport and net.Dialer's place elsewhere.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	cut := make(chan struct{})
	a, b := &conn{Conn: near, cut: cut}, &conn{Conn: far, cut: cut}
	select {
	case l.incoming <- b:
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, a)
	return a, nil
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Door returns a listener for the same connections that can be closed for itself, as by a server that is restarted.
func (l *Listener) Door() net.Listener { return &door{network: l, done: make(chan struct{})} }

type door struct {
	network *Listener
	done    chan struct{}
	close   sync.Once
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.network.incoming:
		return c, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.close.Do(func() { close(d.done) })
	return nil
}

func (d *door) Addr() net.Addr { return address{} }

// Cut makes all current connections dead without closing them.
func (l *Listener) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		close(c.cut)
	}
	l.conns = nil
}

// Close ends Accept and DialContext. Connections stay.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

// Addr is a name.
func (l *Listener) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory" }

// A conn is one end of a pipe. Both ends share the cut.
type conn struct {
	net.Conn
	cut chan struct{}
}

func (c *conn) isCut() bool {
	select {
	case <-c.cut:
		return true
	default:
		return false
	}
}

// Write pretends to write where the network is cut, as a kernel does for a while.
func (c *conn) Write(p []byte) (int, error) {
	if c.isCut() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close notifies the other end, unless the network is cut.
func (c *conn) Close() error {
	if c.isCut() {
		// Reads of this end must return, but the other end may not learn of it: its deadline is how it would find out.
		return c.SetDeadline(time.Unix(1, 0))
	}
	return c.Conn.Close()
}
