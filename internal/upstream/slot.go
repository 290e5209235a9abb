package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
)

var (
	// errSlotEnded says that the caller must pick another slot.
	errSlotEnded = errors.New("the connection was given up")
	// errNotModern says that the server does not speak the modern era.
	errNotModern = errors.New("the server does not speak the modern era")
	// errNewHolder says that the connection of a stranger ended because a principal has a credential.
	errNewHolder = errors.New("a principal has a credential now")
)

const (
	// defaultIdle ends a connection other than the shared one if no time is configured.
	defaultIdle = 15 * time.Minute
	// failedIdle is how long a failed connection of that kind is remembered.
	failedIdle = time.Minute
)

// slotKey identifies a connection of one upstream. The zero key means the shared one.
type slotKey struct {
	principal string       // whose credential the connection has; "" for the one that all callers share
	grant     string       // of the tokens of its callers; see Owner.Grant
	session   *mcp.Session // nil: all sessions of the principal, or of all
	modern    bool         // the second connection to an HTTP server of both eras
}

// isShared reports whether the connection lists, and serves all sessions.
func (k slotKey) isShared() bool { return k == slotKey{} }

// own reports whether the connection is of one session, or of one principal.
func (k slotKey) own() bool { return k.session != nil || k.principal != "" }

// slot is a place for a connection: one goroutine makes it, watches it and
// makes it again. Calls get the connection from its admission.
type slot struct {
	conns    *connections // of which it is one
	srv      *server
	key      slotKey
	ctx      context.Context // ends with the upstream, or the session
	cancel   context.CancelFunc
	calls    *admission
	relist   chan struct{}        // capacity 1: the lists have changed
	line     *subscription.Line   // the subscriptions of sessions over the connection
	greeting atomic.Pointer[junk] // of the latest handshake; may be nil

	// Only run uses these.
	program    *sharedProgram // that the connection needs, or nil
	down       time.Time      // since when the server cannot be had; zero where it can
	otherEra   bool           // begin with the other era next time
	credential credential
}

func newSlot(c *connections, key slotKey) *slot {
	s := &slot{conns: c, srv: c.srv, key: key, relist: make(chan struct{}, 1), credential: credential{srv: c.srv, key: key}}
	s.line = c.subs.NewLine(subscription.LineOptions{Shared: s.isShared(), Principal: key.principal, Session: key.session, Modern: key.modern, Current: s.current})
	s.calls = newAdmission(c.srv, s.line.Held)
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	return s
}

// current returns the connection while the slot is ready, else nil.
func (s *slot) current() subscription.Conn {
	if l := s.calls.current(); l != nil {
		return l
	}
	return nil
}

// isShared reports whether this is the slot that lists, and serves all sessions.
func (s *slot) isShared() bool { return s.key.isShared() }

// nudge puts a token into a channel of capacity 1.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// refresh requests new lists.
func (s *slot) refresh() { nudge(s.relist) }

// missedNotices is called after a time in which the server could not report changes.
func (s *slot) missedNotices() {
	switch {
	case s.conns.lists.perCaller() && s.key.principal != "":
		s.conns.lists.own.changed(memberKey{s.key.principal, s.key.grant}, false)
	case s.isShared():
		s.refresh()
	}
}

// auto reports whether the connection is made again although no call wants it.
func (s *slot) auto() bool {
	if !s.isShared() {
		return s.line.Held() || s.key.principal != "" && !s.srv.cfg.FromCaller() && needsSignIn(s.calls.lastError())
	}
	return !s.srv.onDemand() || !s.conns.lists.listed.Load() || s.line.Held() || !s.down.IsZero()
}

// run supervises the connection until the slot ends.
func (s *slot) run() {
	defer func() {
		s.leaveProgram(false)
		s.calls.end(StateStopped, nil)
		s.cancel()
		s.conns.forget(s)
	}()
	if session := s.key.session; session != nil {
		defer session.OnClose(s.cancel)()
	}
	if s.conns.after != nil {
		select {
		case <-s.conns.after:
		case <-s.ctx.Done():
			return
		}
	}
	for s.ctx.Err() == nil {
		version := s.begin()
		l, err := s.srv.connect(s, version)
		switch {
		case s.ctx.Err() != nil:
			if l != nil {
				l.close()
			}
			return
		case err != nil:
			s.leaveProgram(!errors.Is(err, errNotModern))
			if errors.Is(err, mcp.ErrLoop) {
				s.leaveOut(err)
				return
			}
			s.fail(err)
			if !s.pause() {
				return
			}
			continue
		}
		if !s.serve(l) {
			return
		}
	}
}

// begin starts an attempt, and returns the protocol version for the handshake. A server may exit,
// or not answer, if it does not speak the handshake's era, so the eras alternate until one has
// worked.
func (s *slot) begin() (version string) {
	s.calls.start()
	s.srv.mu.Lock()
	modern := s.srv.modernOnly
	s.srv.mu.Unlock()
	if s.key.modern || modern != s.otherEra {
		return mcp.V20260728
	}
	return ""
}

// fail records a failed attempt.
func (s *slot) fail(err error) {
	if errors.As(err, new(greetingError)) {
		s.otherEra = !s.otherEra
	}
	if needsSignIn(err) {
		s.srv.asksSignIn.Store(true)
		if s.isShared() {
			s.conns.lists.offerSignIn()
		}
	}
	if s.isShared() && s.down.IsZero() {
		s.down = time.Now()
	}
	s.credential.noteFailed()
	next, same := s.calls.fail(err)
	if !errors.Is(err, errNotModern) {
		s.srv.opts.Failed(s.srv.name)
	}
	switch {
	case errors.Is(err, errNotModern):
		return
	case needsSignIn(err) && s.key.principal != "":
		s.srv.log.Debug("a caller has no credential yet", "err", err)
	case same:
		s.srv.log.Debug("the server still cannot be started", "err", err, "retry_in", next)
	default:
		s.stateLog().Warn("the server cannot be started or reached", "err", err, "retry_in", next.Round(time.Millisecond))
	}
	if s.isShared() {
		s.conns.lists.settle()
	}
}

// stateLog returns the log for a failure of the connection. If the connection is the shared one, the
// records say in "state" that the upstream has failed.
func (s *slot) stateLog() *slog.Logger {
	if !s.isShared() {
		return s.srv.log
	}
	return s.srv.log.With("state", string(StateFailed))
}

// pause waits until the next attempt is due or requested, and reports whether to make it.
func (s *slot) pause() bool {
	forget := time.NewTimer(failedIdle)
	defer forget.Stop()
	attempt, reached := s.due()
	defer attempt.Stop()
	grace := time.NewTimer(0)
	defer grace.Stop()
	for {
		var due, gone <-chan time.Time
		if s.auto() {
			due = attempt.C
		}
		if !s.down.IsZero() && s.conns.lists.listed.Load() {
			grace.Reset(time.Until(s.down.Add(s.srv.opts.Grace)))
			gone = grace.C
		}
		select {
		case <-s.ctx.Done():
			return false
		case <-s.calls.wake:
			return true
		case <-due:
			if reached() {
				return true
			}
			attempt.Reset(signInPause)
		case <-gone:
			s.conns.lists.remove()
			if needsSignIn(s.calls.lastError()) {
				s.conns.lists.offerSignIn()
			}
		case <-forget.C:
			if !s.isShared() {
				if s.calls.endQuiet() {
					return false
				}
				forget.Reset(failedIdle) // it is in use, or held
			}
		}
	}
}

// serve supervises a connection until it ends or is not needed, and reports whether to connect
// again.
func (s *slot) serve(l *link) bool {
	s.down, s.otherEra, s.credential.failed = time.Time{}, false, ""
	s.line.Reset()
	s.calls.open(l, &s.conns.restarts)
	s.srv.greeted(s, l)

	ctx, cancel := context.WithCancel(s.ctx)
	var tasks sync.WaitGroup
	listed := make(chan struct{})
	switch {
	case s.adds():
		tasks.Go(func() { s.listAdded(ctx, l) })
	case !s.isShared():
	case s.conns.lists.perCaller(): // no account lists for others
		s.conns.lists.settle()
		close(listed)
	default:
		tasks.Go(func() { s.list(ctx, l, listed) })
	}
	tasks.Go(func() { s.line.Renew(ctx, l) })
	if l.hello.Modern && !s.key.modern {
		tasks.Go(func() { s.line.Listen(ctx, l, s.missedNotices) })
	}
	if l.http {
		tasks.Go(func() { s.ping(ctx, l) })
	}
	idle, err := s.watch(l, listed)
	if err != nil && s.ctx.Err() == nil && s.isShared() && !s.srv.onDemand() {
		s.down = time.Now()
	}
	cancel()
	keeps := !idle && s.ctx.Err() == nil && outlives(err)
	s.retire(l, keeps)
	tasks.Wait()
	refused := errors.As(err, new(holderError))
	if refused {
		s.credential.noteFailed()
	}
	if !keeps {
		s.leaveProgram(!idle && s.ctx.Err() == nil)
	}
	switch {
	case s.ctx.Err() != nil:
		return false
	case errors.Is(err, errNewHolder):
		return true
	case refused: // list has logged it
		return s.pause()
	case !idle:
		s.stateLog().Warn("the connection was lost", "err", err)
		return s.pause()
	case !s.isShared():
		return false
	}
	s.srv.log.Debug("stopped because it is idle")
	select {
	case <-s.calls.wake:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// watch waits for the end of a connection. err is the reason for a loss; idle means that the
// connection is not needed.
func (s *slot) watch(l *link, listed <-chan struct{}) (idle bool, err error) {
	timer := time.NewTimer(s.idleTime(false))
	defer timer.Stop()
	holders, stop := s.credential.watch()
	defer stop()
	for {
		select {
		case <-s.ctx.Done():
			s.calls.end(StateStopped, nil)
			return false, s.ctx.Err()
		case <-l.done:
			err := l.err()
			s.calls.lose(l, err)
			return false, err
		case <-s.calls.lost:
			if s.calls.current() == l {
				continue // it was a connection before
			}
			return false, s.calls.lastError()
		case <-holders:
			if !s.credential.signedIn(s.calls.nextTry) {
				continue
			}
			s.calls.end(StateStarting, nil)
			return false, errNewHolder
		case <-listed:
			listed, s.credential.refused = nil, nil
		case <-timer.C:
		}
		left := s.stopIfIdle(listed == nil)
		if left <= 0 {
			return true, nil
		}
		timer.Reset(left)
	}
}

// never is longer than any connection lives.
const never = 10 * 365 * 24 * time.Hour

// idleTime returns how long the connection may be unused. A server that starts on demand and has
// only been listed is not needed until a call.
func (s *slot) idleTime(unneeded bool) time.Duration {
	srv := s.srv
	switch {
	case s.isShared() && !srv.program():
		return never
	case s.isShared() && unneeded && srv.onDemand():
		return 0
	case srv.cfg.IdleTimeout > 0:
		return srv.cfg.IdleTimeout
	case s.key.session != nil || s.isShared():
		return never
	}
	return defaultIdle
}

// stopIfIdle makes the slot idle, or returns how long it may still be unused.
func (s *slot) stopIfIdle(listed bool) (left time.Duration) {
	state := StateStopped
	if s.isShared() {
		state = StateIdle
	}
	return s.calls.endUnused(state, func(called bool) time.Duration { return s.idleTime(listed && !called) })
}

// retireTime is how long calls over an HTTP connection whose session is lost may still be answered.
const retireTime = time.Minute

// retire closes a connection that calls get no more. Calls over HTTP do not depend on each other:
// those whose answers are on their way get them first, unless the program that is to answer ends as
// well.
func (s *slot) retire(l *link, keeps bool) {
	unused := s.calls.retire(l)
	if !l.http || l.pid != 0 && !keeps {
		l.close()
		return
	}
	s.conns.wg.Go(func() { // the caller's goroutine is in wg as well
		defer l.close()
		timer := time.NewTimer(retireTime)
		defer timer.Stop()
		select {
		case <-unused:
		case <-timer.C:
		case <-s.ctx.Done():
		}
	})
}
