package web

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/app"
)

// How a Listener closes: it accepts until no connection has come for closeQuiet,
// and for closeLimit at most.
const (
	closeQuiet = 5 * time.Millisecond
	closeLimit = 100 * time.Millisecond
)

// A Listener loses no connection when a Server closes it: Close of a plain listener cuts off the
// connections that the system has made and that were not accepted yet, with a request in them
// perhaps. A Listener accepts these first.
type Listener struct {
	*net.TCPListener
	closing atomic.Pointer[time.Time] // since when
}

// Listen listens on an address. The error is an *app.SetupError.
func Listen(ctx context.Context, addr string) (*Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, app.CannotListen(addr, err, "pass another address with --listen (127.0.0.1:0 takes a free port, and shell commands find it), or set listen in the configuration")
	}
	return &Listener{TCPListener: l.(*net.TCPListener)}, nil
}

// shut begins to close. Accept does the rest.
func (g *Listener) shut() {
	now := time.Now()
	g.closing.Store(&now)
	_ = g.SetDeadline(now) // wakes Accept; a closed listener needs no waking
}

// Accept implements net.Listener. Its last error is net.ErrClosed.
func (g *Listener) Accept() (net.Conn, error) {
	for {
		since := g.closing.Load()
		if since != nil {
			if time.Since(*since) > closeLimit {
				return nil, g.closed()
			}
			if err := g.SetDeadline(time.Now().Add(closeQuiet)); err != nil {
				return nil, g.closed()
			}
		}
		conn, err := g.TCPListener.Accept()
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return conn, err
		case since != nil: // it was quiet
			return nil, g.closed()
		}
	}
}

func (g *Listener) closed() error {
	_ = g.Close() // nothing to do about it
	return net.ErrClosed
}
