package router

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// askAgainAfter is how long what is known of an upstream's eras counts: another
// version of the server may run by then.
const askAgainAfter = time.Minute

// eras remembers which eras an HTTP upstream speaks.
type eras struct {
	// answers to a greeting in the legacy era and in the modern one, nil where
	// not known. A server is greeted in the legacy era first, so one that
	// answered that in the modern one speaks no other.
	answers [2]atomic.Pointer[eraAnswer]
}

type eraAnswer struct {
	modern bool
	at     time.Time
}

// forget makes the next request ask again.
func (e *eras) forget() {
	e.answers[0].Store(nil)
	e.answers[1].Store(nil)
}

// speaks reports whether the upstream takes messages of an era as they are. An
// error says that it is not there to ask.
func (f *face) speaks(ctx context.Context, modern bool) (bool, error) {
	slot := &f.eras.answers[0]
	if modern {
		slot = &f.eras.answers[1]
	}
	a := slot.Load()
	if a == nil || time.Since(a.at) >= askAgainAfter {
		hello, err := f.up.Hello(ctx, modern)
		if err != nil {
			return false, err
		}
		a = &eraAnswer{modern: hello.Modern || mcp.IsModern(hello.Version), at: time.Now()}
		slot.Store(a)
	}
	return a.modern == modern, nil
}
