package cli

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// How a gate closes: it goes on to accept until nobody has come for gateQuiet,
// and for gateLimit at most.
const (
	gateQuiet = 5 * time.Millisecond
	gateLimit = 100 * time.Millisecond
)

// A gate is a listener that loses nobody when it closes: a connection that the
// system has made and that nobody has accepted is cut off by Close, with a
// request in it perhaps. So these are accepted first.
type gate struct {
	*net.TCPListener
	closing atomic.Pointer[time.Time] // since when
}

// shut begins to close. Accept does the rest.
func (g *gate) shut() {
	now := time.Now()
	g.closing.Store(&now)
	_ = g.SetDeadline(now) // wakes Accept; a closed listener needs no waking
}

// Accept implements net.Listener. Its last error is net.ErrClosed.
func (g *gate) Accept() (net.Conn, error) {
	for {
		since := g.closing.Load()
		if since != nil {
			if time.Since(*since) > gateLimit {
				return nil, g.closed()
			}
			if err := g.SetDeadline(time.Now().Add(gateQuiet)); err != nil {
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

func (g *gate) closed() error {
	_ = g.Close() // nothing to do about it
	return net.ErrClosed
}
