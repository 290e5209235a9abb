package router

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// askAgainAfter is how long it is remembered whether an upstream speaks the
// modern era: another version of the server may run by then.
const askAgainAfter = time.Minute

// modernEra remembers whether an HTTP upstream speaks the modern era.
type modernEra struct{ known atomic.Pointer[eraAnswer] }

type eraAnswer struct {
	spoken bool
	at     time.Time
}

// forget makes the next request ask again.
func (e *modernEra) forget() { e.known.Store(nil) }

// takes reports whether an HTTP upstream takes messages of an era as they are.
// When it cannot be asked, they are forwarded: either they arrive, or the agent
// is told why not.
func (f *face) takes(ctx context.Context, t Target, modern bool) bool {
	switch {
	case t.Version == "":
	case modern == mcp.IsModern(t.Version):
		return true
	case !modern:
		// A server is greeted in the legacy era first: this one knows it not.
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
