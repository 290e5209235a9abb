package upstream

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// timeLimit bounds how long a server may take for a call. The time of a question to the client does
// not count: a person who fills in a form does not make the server slow. After an answer the whole
// time is available again.
type timeLimit struct {
	of     time.Duration
	back   mcp.Handler
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards below
	timer  *time.Timer
	asking int // questions without an answer yet
	ended  bool
}

// limit returns a context that ends, with context.DeadlineExceeded as its cause, when a call has
// taken too long. The timeLimit is the back for the call. The caller must call end when the call has
// returned.
func limit(ctx context.Context, d time.Duration, back mcp.Handler) (context.Context, *timeLimit) {
	limited, cancel := context.WithCancelCause(ctx)
	l := &timeLimit{of: d, back: back, cancel: cancel}
	l.timer = time.AfterFunc(d, l.expire)
	return limited, l
}

// Serve implements mcp.Handler.
func (l *timeLimit) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return l.back.Serve(ctx, r)
	}
	l.ask(+1)
	defer l.ask(-1)
	return l.back.Serve(ctx, r)
}

// ask adds n to the number of open questions.
func (l *timeLimit) ask(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking += n
	switch {
	case l.ended:
	case l.asking == 0:
		l.timer.Reset(l.of)
	case l.asking == n:
		l.timer.Stop()
	}
}

func (l *timeLimit) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking == 0 && !l.ended {
		l.cancel(context.DeadlineExceeded)
	}
}

func (l *timeLimit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.timer.Stop()
	l.cancel(nil)
}
