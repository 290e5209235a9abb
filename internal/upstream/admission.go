package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// admission lets calls use the connection of a slot. The slot's goroutine reports what becomes of
// the connection; calls wait until they can have it, and are counted while they use it. All methods
// may be called concurrently.
//
//	slot.run:  start ─▶ open ─▶ lose | stop      and  start ─▶ fail
//	a call:    acquire ─▶ a link ─▶ release; lose if the call finds it broken
type admission struct {
	who      string        // names the server in errors
	budget   time.Duration // a call waits at most this long for the connection
	comeback time.Duration // so long after a loss, a call waits for more than one attempt
	held     func() bool   // reports whether sessions need the connection although no call uses it
	wake     chan struct{} // capacity 1: a call wants a connection now
	lost     chan struct{} // capacity 1: lose has taken a connection away

	mu      sync.Mutex // guards below
	state   State
	since   time.Time     // of state
	changed chan struct{} // closed, and replaced, when state changes
	link    *link         // while ready
	calls   int           // users of link
	waiting int           // calls that wait for a link
	called  bool          // a call has used link
	used    time.Time     // when a call used link last
	tries   attempts      // to make link
	moved   bool          // calls that have no connection yet get errMoved
}

// remoteComeback is how long after its loss a server that weir does not run may be expected back.
const remoteComeback = 3 * time.Second

func newAdmission(srv *server, held func() bool) *admission {
	comeback := srv.opts.ReadyBudget
	if !srv.program() {
		comeback = min(comeback, remoteComeback)
	}
	return &admission{
		who: srv.who, budget: srv.opts.ReadyBudget, comeback: comeback, held: held,
		wake: make(chan struct{}, 1), lost: make(chan struct{}, 1),
		state: StateStarting, since: time.Now(), changed: make(chan struct{}),
	}
}

// acquire returns the connection. It wakes the server and waits if there is none. The caller
// releases the connection, which stays until then unless it breaks.
func (a *admission) acquire(ctx context.Context) (*link, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == StateReady && !a.moved {
		return a.take(), nil
	}
	a.waiting++
	defer func() { a.waiting-- }()
	begin, seen := time.Now(), a.tries.failed
	budget := time.NewTimer(a.budget)
	defer budget.Stop()
	for a.state != StateReady || a.moved {
		retry, err := a.prospect(time.Now(), seen)
		if err != nil {
			return nil, err
		}
		switch over, err := a.wait(ctx, retry, budget.C); {
		case err != nil:
			return nil, err
		case over && a.tries.err != nil && a.state != StateReady && ctx.Err() == nil:
			return nil, a.unavailable() // the reason why it does not become ready is known
		case over:
			return nil, mcp.Errorf(mcp.KindUpstreamStarting, "%s has not become ready within %s; try again in a while", a.who, time.Since(begin).Round(time.Second/10))
		}
	}
	return a.take(), nil
}

// prospect returns why waiting for a connection is in vain, or how long to wait before asking again
// unless the state changes, 0 for no limit. The call has seen that many failed attempts. It asks
// for an attempt where one is due. The caller holds mu.
func (a *admission) prospect(now time.Time, seen int) (retry time.Duration, err error) {
	if a.moved {
		return 0, errMoved
	}
	switch a.state {
	case StateStopped:
		return 0, errSlotEnded
	case StateLeftOut:
		return 0, a.unavailable()
	case StateIdle:
		nudge(a.wake)
	case StateFailed:
		if errors.Is(a.tries.err, errNotModern) {
			return 0, errNotModern
		}
		wait, next := a.tries.next(now, seen, a.comeback)
		switch next {
		case tryNow:
			nudge(a.wake)
		case tryNever:
			return 0, a.unavailable()
		default:
			return wait, nil
		}
	}
	return 0, nil
}

// move sends calls that have no connection yet to the next upstream.
func (a *admission) move() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moved = true
	a.set(a.state)
}

// wait returns when the state changes, after retry if that is not 0, or with over set when the
// budget is spent. It returns the error of ctx. The caller holds mu, which is free meanwhile.
func (a *admission) wait(ctx context.Context, retry time.Duration, budget <-chan time.Time) (over bool, err error) {
	changed := a.changed
	a.mu.Unlock()
	defer a.mu.Lock()
	var again <-chan time.Time
	if retry > 0 {
		timer := time.NewTimer(retry)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-changed:
	case <-again:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-budget:
		return true, nil
	}
	return false, nil
}

// take counts a user of the connection. The caller holds mu.
func (a *admission) take() *link {
	a.calls++
	a.called = true
	a.link.users++
	return a.link
}

// release gives back a connection that acquire returned.
func (a *admission) release(l *link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls--
	a.used = time.Now()
	if l.users--; l.users == 0 && l.retired != nil {
		close(l.retired)
	}
}

// retire returns a channel that is closed when no call uses l any more. It is called once, for a
// connection that acquire returns no more.
func (a *admission) retire(l *link) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.retired = make(chan struct{})
	if l.users == 0 {
		close(l.retired)
	}
	return l.retired
}

// unavailable returns the error of a server that failed. The caller holds mu.
func (a *admission) unavailable() error {
	own := (*mcp.Error)(nil)
	if errors.As(a.tries.err, &own) && (needsSignIn(a.tries.err) || own.Kind == mcp.KindIdentityUnavailable) {
		return own
	}
	e := &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: a.who + " is not available", Err: a.tries.err}
	if a.tries.err != nil {
		e.Message += ": " + a.tries.err.Error()
	}
	if errors.Is(a.tries.err, mcp.ErrFinal) {
		// The configuration is wrong, so a retry by the agent is pointless.
		e.Kind = mcp.KindUpstreamProtocol
		if k, _ := mcp.KindOf(a.tries.err); k == mcp.KindUnauthorized || k == mcp.KindPermissionDenied {
			e.Kind = k
		}
	}
	e.SetRetryAfter(mcp.RetryAfter(a.tries.err))
	return e
}

// set changes the state and wakes the calls that wait for that. The caller holds mu.
func (a *admission) set(state State) {
	if a.state != state {
		a.state, a.since = state, time.Now()
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// start says that an attempt starts.
func (a *admission) start() {
	select {
	case <-a.wake: // the calls that asked for an attempt get this one
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(StateStarting)
}

// fail says that an attempt failed. It returns the time until the next one, and whether the
// attempt before failed for the same reason.
func (a *admission) fail(err error) (next time.Duration, same bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next, same = a.tries.fail(err, time.Now())
	a.set(StateFailed)
	return next, same
}

// open offers l to calls. It counts a restart first if l replaces a connection that was lost, so that
// no caller sees the connection without its count.
func (a *admission) open(l *link, restarts *atomic.Int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tries.succeed() {
		restarts.Add(1)
	}
	a.link, a.called, a.used = l, false, time.Now()
	a.set(StateReady)
}

// lose says that l is of no use any more. The next acquire waits for another connection.
func (a *admission) lose(l *link, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link != l {
		return
	}
	a.link = nil
	a.tries.lose(err, time.Now(), a.since)
	a.set(StateFailed)
	nudge(a.lost)
}

// end says that there is no connection, and none without a further start: it failed for good with
// err, or is not needed.
func (a *admission) end(state State, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link = nil
	if err != nil {
		a.tries.err = err
	}
	a.set(state)
}

// endUnused does what end does if the connection has not been used for as long as limit says, which
// is told whether a call has ever used it. It returns for how long the connection may still be
// unused, 0 if it has ended.
func (a *admission) endUnused(state State, limit func(called bool) time.Duration) (left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := limit(a.called)
	if a.calls > 0 || a.held() || a.waiting > 0 {
		return max(idle, time.Second)
	}
	if left := idle - time.Since(a.used); left > 0 {
		return left
	}
	a.link = nil
	a.set(state)
	return 0
}

// current returns the connection while it is ready, else nil.
func (a *admission) current() *link {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.link
}

// now returns the state, and since when it is that.
func (a *admission) now() (State, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state, a.since
}

// lastError returns why there is no connection, nil while there is one.
func (a *admission) lastError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tries.err
}

// nextTry returns the time before which no attempt starts unless a call wants one.
func (a *admission) nextTry() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tries.due
}

// quiet returns since when the connection is not used; ok is false while it is.
func (a *admission) quiet() (used time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used, a.isQuiet()
}

// isQuiet reports whether no call uses the connection or waits for it, and no session needs it. The
// caller holds mu.
func (a *admission) isQuiet() bool {
	return a.calls == 0 && a.waiting == 0 && !a.held() && a.state != StateStarting
}

// endQuiet ends the connection if it is quiet, and reports whether it did. A call that comes later
// gets errSlotEnded.
func (a *admission) endQuiet() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isQuiet() {
		return false
	}
	a.link = nil
	a.set(StateStopped)
	return true
}

// report fills in what an operator wants to know of the connection.
func (a *admission) report(st *Status, redact func(string) string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	st.State, st.Since = a.state, a.since
	if a.state == StateFailed {
		st.NextTry = a.tries.due
	}
	if a.link != nil {
		st.Pid = a.link.pid
	}
	if a.state == StateLeftOut {
		st.Note = redact(a.tries.err.Error())
	} else if a.tries.err != nil {
		st.LastError = redact(a.tries.err.Error())
	}
}
