package web

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/upstream/agents"
)

// A closing Listener accepts connections until none has come for closeQuiet, and for closeLimit at
// most.
const (
	closeQuiet = 5 * time.Millisecond
	closeLimit = 100 * time.Millisecond
)

// A Listener closes without dropping connections. Closing a plain listener resets connections that
// the system has established but the program has not accepted, some with a request in them. A
// Listener accepts these first.
type Listener struct {
	*net.TCPListener
	closing atomic.Pointer[time.Time] // when shut was called
	secured *secured                  // nil without TLS
	door    *Listener                 // see Secure; nil without TLS
}

// Listen listens on an address. Its error is a *part.SetupError.
func Listen(ctx context.Context, addr string) (*Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, part.CannotListen(addr, err, "pass another address with --listen (127.0.0.1:0 takes a free port, and shell commands find it), or set listen in the configuration")
	}
	return &Listener{TCPListener: l.(*net.TCPListener)}, nil
}

// shut starts closing; Accept completes it.
func (g *Listener) shut() {
	now := time.Now()
	g.closing.Store(&now)
	if g.door != nil {
		g.door.shut()
	}
	_ = g.SetDeadline(now) // wakes Accept; fails only if closed already
}

// Accept implements net.Listener. It ends with net.ErrClosed.
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
		case since != nil: // no connection for closeQuiet
			return nil, g.closed()
		}
	}
}

func (g *Listener) closed() error {
	_ = g.Close() // nothing can be done about it
	return net.ErrClosed
}

// defaultListen is the listen address if the configuration has none.
const defaultListen = "127.0.0.1:8088"

// ListenAddress returns the address to listen on: the configured one, or else the default address
// with the port of routing.json.
func ListenAddress(c *config.Config) string {
	if c.Agents.Routing == "" || c.Listen != defaultListen {
		return c.Listen
	}
	if r, err := agents.ReadRouting(c.Agents.Routing); err == nil && r.Port > 0 {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port))
	}
	return c.Listen
}
