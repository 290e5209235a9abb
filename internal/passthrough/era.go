package passthrough

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// askAgainAfter is how long the router remembers whether an upstream speaks the modern era. Later
// another version of the server may run.
const askAgainAfter = time.Minute

// modernEra remembers whether an HTTP upstream speaks the modern era.
type modernEra struct{ known atomic.Pointer[eraAnswer] }

type eraAnswer struct {
	spoken bool
	at     time.Time
}

// forget makes the next request ask again.
func (e *modernEra) forget() { e.known.Store(nil) }

// takes reports whether an HTTP upstream accepts messages of an era unchanged. If the upstream
// cannot be asked, messages are forwarded: either they arrive, or the agent gets the reason.
func (f *face) takes(ctx context.Context, t Target, modern bool) bool {
	switch {
	case t.Version == "":
	case modern == mcp.IsModern(t.Version):
		return true
	case !modern:
		// The legacy handshake comes first, and this server did not accept it.
		return false
	}
	if modern {
		if a := f.modern.known.Load(); a != nil && time.Since(a.at) < askAgainAfter {
			return a.spoken
		}
	}
	hello, err := f.up.Hello(ctx, modern)
	if err != nil {
		return true
	}
	if modern {
		f.modern.known.Store(&eraAnswer{spoken: hello.Modern, at: time.Now()})
	}
	return hello.Modern == modern
}
