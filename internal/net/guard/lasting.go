package guard

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// checkPause is the time to the next check of a credential that still admits its caller although it
// has ended, such as a token within the leeway of clocks, and of one that cannot be checked now.
const checkPause = 20 * time.Second

// checkAgain is the time to the next check of a credential without an end.
const checkAgain = 24 * time.Hour

// checkRevocable is the longest time to the next check of a credential that its issuer may revoke.
const checkRevocable = 5 * time.Minute

// A Check returns who made the request of a stream, by the rules of now. It must be safe for concurrent
// use.
type Check func(r *http.Request) (*identity.Identity, error)

// Streams ends streams with the credentials of their callers: each request is checked when it starts,
// and a stream goes on for days. It checks a stream again at its start, as the rules may have changed
// since the headers were read. It checks it when the credential ends, and all streams when Follow or
// Recheck is called. A credential that its issuer may revoke is checked every five minutes as well. It
// is safe for concurrent use.
type Streams struct {
	mu    sync.Mutex // guards below
	check Check
	turn  uint64 // how often all streams were to be checked
	open  map[*stream]struct{}
	drain time.Duration // of the last Drain
	// drains counts the calls of Drain. A request remembers the number at its start.
	drains atomic.Uint64
}

// stream is a stream that a request has started.
type stream struct {
	of        *Streams
	by        Check // nil: the one of Streams
	r         *http.Request
	principal string
	end       context.CancelCauseFunc
	timer     *time.Timer
	drain     *time.Timer // ends it; nil before Streams.Drain
}

// Follow makes check find out who makes the requests of all streams from now on.
func (s *Streams) Follow(check Check) {
	s.mu.Lock()
	s.check = check
	s.mu.Unlock()
	s.Recheck()
}

// Recheck checks the credentials of all streams, in the background.
func (s *Streams) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	for one := range s.open {
		one.timer.Reset(0)
	}
}

// Drain ends the streams of the requests that are there now, each after a random part of a time, because their
// clients all connect again. A request that has not started its stream yet is one of them: its client may have
// read a part of the answer already. context.Cause is an error of mcp.KindShuttingDown then. It returns at once.
func (s *Streams) Drain(within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain = within
	s.drains.Add(1)
	for one := range s.open {
		one.drainLocked()
	}
}

// seen returns how often Drain has been called. A nil s is never drained.
func (s *Streams) seen() uint64 {
	if s == nil {
		return 0
	}
	return s.drains.Load()
}

// drainLocked ends the stream within the time of Drain. The caller holds Streams.mu.
func (o *stream) drainLocked() {
	o.drain = time.AfterFunc(rand.N(max(1, o.of.drain)), func() {
		o.end(mcp.Errorf(mcp.KindShuttingDown, "this node takes no new work; open the stream again"))
	})
}

// CheckedBy returns a context of which a check of its own says who makes the streams of the request. It
// is for callers whom the check of Follow does not know.
func CheckedBy(ctx context.Context, check Check) context.Context {
	c, ok := ctx.Value(challengeKey{}).(challenger)
	if !ok {
		return ctx
	}
	c.check = check
	return context.WithValue(ctx, challengeKey{}, c)
}

// Again returns who made the request of ctx, by the rules of now, which may be others than when a Guard
// with Options.Streams let it pass. The check ends with ctx. Another node that vouches for a caller does
// not know that a call still waits, so its token is checked here.
func Again(ctx context.Context) (*identity.Identity, error) {
	id := identity.From(ctx)
	c, ok := ctx.Value(challengeKey{}).(challenger)
	if !ok || c.g.streams == nil {
		return id, nil
	}
	check := c.check
	if check == nil {
		c.g.streams.mu.Lock()
		check = c.g.streams.check
		c.g.streams.mu.Unlock()
	}
	if check == nil {
		return id, nil
	}
	if vouched(ctx) != nil && bearer(c.r.Header) != "" {
		ctx = Vouch(ctx, nil)
	}
	return check(c.r.WithContext(ctx))
}

// Lasting returns a context for a stream of the request of ctx, which a Guard with Options.Streams let
// pass. It ends with ctx, and when the credential of the request admits its caller no longer. Then
// context.Cause is an error of mcp.KindUnauthorized for the client. Call end after the stream.
func Lasting(ctx context.Context) (lasting context.Context, end context.CancelFunc) {
	c, _ := ctx.Value(challengeKey{}).(challenger)
	return LastingBy(ctx, c.r)
}

// LastingBy is Lasting for the stream of ctx with the credential of a later request: a client whose
// token was renewed keeps its stream.
func LastingBy(ctx context.Context, later *http.Request) (lasting context.Context, end context.CancelFunc) {
	c, ok := ctx.Value(challengeKey{}).(challenger)
	if !ok || c.g.streams == nil || !c.lasts {
		return ctx, func() {}
	}
	s := c.g.streams
	lasting, cancel := context.WithCancelCause(ctx)
	one := &stream{of: s, by: c.check, r: later.WithContext(lasting), principal: identity.From(ctx).Principal, end: cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*stream]struct{}{}
	}
	s.open[one] = struct{}{}
	one.timer = time.AfterFunc(0, one.recheck)
	if s.drains.Load() != c.drains {
		one.drainLocked()
	}
	return lasting, func() {
		s.mu.Lock()
		delete(s.open, one)
		one.timer.Stop()
		if one.drain != nil {
			one.drain.Stop()
		}
		s.mu.Unlock()
		cancel(nil)
	}
}

// recheck ends the stream if its credential does not admit the caller any more, and else says when to
// check next.
func (o *stream) recheck() {
	o.of.mu.Lock()
	check, turn, wait := o.of.check, o.of.turn, checkAgain
	o.of.mu.Unlock()
	if o.by != nil {
		check = o.by
	}
	if check != nil {
		id, err := check(o.r)
		switch kind, _ := mcp.KindOf(err); {
		case err == nil && id.Principal != o.principal:
			err = mcp.Errorf(mcp.KindUnauthorized, "the credential names another principal now")
			fallthrough
		case err != nil && kind != mcp.KindIdentityUnavailable:
			o.end(mcp.Errorf(mcp.KindUnauthorized, "the credential with which this stream began is not valid any more; open it again with a new one: %w", err))
			return
		case err != nil:
			wait = checkPause
		default:
			if id.Revocable {
				wait = checkRevocable
			}
			if !id.Expires.IsZero() {
				wait = min(wait, max(time.Until(id.Expires), checkPause))
			}
		}
	}
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if turn != o.of.turn {
		wait = 0 // the rules have changed meanwhile
	}
	if _, open := o.of.open[o]; open {
		o.timer.Reset(wait)
	}
}

// begins reports whether a request may start a stream: a GET, or a subscription of 2026-07-28.
func begins(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
}
