package computer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/smcp"
)

const (
	cancelLead = time.Second // by how much a cancellation may precede its call
	maxEarly   = 64
	maxReqID   = 256 // bytes
)

// errAgentCancelled is the cause of a call's context when its Agent cancels it.
var errAgentCancelled = errors.New("the agent cancelled the call")

// ledger records the calls in flight and the finished ones. The zero value is empty. It is safe for
// concurrent use.
type ledger struct {
	mu      sync.Mutex                         // guards below
	calls   map[string]context.CancelCauseFunc // by req_id
	early   []cancellation                     // that precede their calls, oldest first
	history []Record                           // a ring once it is full
	oldest  int                                // index of the oldest entry of a full history
	recent  []string                           // servers by last use, latest first
}

// cancellation requests the end of a call that is not in flight: the call arrives later, or belongs
// to another Computer of the office.
type cancellation struct {
	reqID string
	at    time.Time
}

// list returns the latest calls, oldest first.
func (l *ledger) list() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := 0
	if len(l.history) == maxHistory {
		at = l.oldest
	}
	return append(slices.Clone(l.history[at:]), l.history[:at]...)
}

// servers returns the servers by last use, latest first.
func (l *ledger) servers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recent)
}

// record adds a finished call.
func (l *ledger) record(r Record) {
	if len(r.Arguments) > maxHistoryArgs {
		r.Arguments = nil
	}
	r.Arguments = slices.Clone(r.Arguments)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.history) < maxHistory {
		l.history = append(l.history, r)
	} else {
		l.history[l.oldest] = r
		l.oldest = (l.oldest + 1) % maxHistory
	}
	if r.Server != "" && (len(l.recent) == 0 || l.recent[0] != r.Server) {
		l.recent = slices.DeleteFunc(l.recent, func(name string) bool { return name == r.Server })
		l.recent = slices.Insert(l.recent, 0, r.Server)
		l.recent = l.recent[:min(len(l.recent), maxServers)]
	}
}

// begin registers a call in flight. Until end is called, the call can be cancelled by its req_id. Its
// context also ends after timeout, with context.DeadlineExceeded as the cause; 0 sets no limit.
func (l *ledger) begin(ctx context.Context, reqID string, timeout time.Duration) (_ context.Context, end func(), _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.calls) >= maxCalls:
		cancel(nil)
		return nil, nil, faultf(smcp.CodeBusy, "%d calls are in flight, which is the bound; wait for some to finish", len(l.calls))
	case reqID != "" && l.calls[reqID] != nil:
		cancel(nil)
		return nil, nil, faultf(smcp.CodeInvalid, "req_id %q belongs to a call in flight", reqID)
	}
	if reqID != "" {
		if l.calls == nil {
			l.calls = map[string]context.CancelCauseFunc{}
		}
		l.calls[reqID] = cancel
		if l.takeEarly(reqID) {
			cancel(errAgentCancelled)
		}
	}
	var timer *time.Timer
	if timeout > 0 { // one context with two causes costs less than two contexts
		timer = time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) })
	}
	return ctx, func() {
		if timer != nil {
			timer.Stop()
		}
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		if reqID != "" {
			delete(l.calls, reqID)
		}
	}, nil
}

// full reports whether the limit of calls in flight is reached.
func (l *ledger) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) >= maxCalls
}

// cancel ends a call in flight and reports whether there was one. Each call starts in its own
// goroutine, so a cancellation may overtake it: cancel also ends a call that starts within
// cancelLead.
func (l *ledger) cancel(reqID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel := l.calls[reqID]; cancel != nil {
		cancel(errAgentCancelled)
		return true
	}
	if reqID == "" || len(reqID) > maxReqID || slices.ContainsFunc(l.history, func(r Record) bool { return r.ReqID == reqID }) {
		return false
	}
	now := time.Now()
	l.early = slices.DeleteFunc(l.early, func(e cancellation) bool { return now.Sub(e.at) > cancelLead })
	if len(l.early) == maxEarly {
		l.early = slices.Delete(l.early, 0, 1)
	}
	l.early = append(l.early, cancellation{reqID, now})
	return false
}

// takeEarly reports whether a call was cancelled before it started. The caller holds mu.
func (l *ledger) takeEarly(reqID string) bool {
	i := slices.IndexFunc(l.early, func(e cancellation) bool { return e.reqID == reqID })
	if i < 0 {
		return false
	}
	at := l.early[i].at
	l.early = slices.Delete(l.early, i, i+1)
	return time.Since(at) <= cancelLead
}

// cancelAll ends all calls in flight.
func (l *ledger) cancelAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cancel := range l.calls {
		cancel(errAgentCancelled)
	}
}
