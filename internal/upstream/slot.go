package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
)

var (
	// errSlotEnded says that another slot is to be picked.
	errSlotEnded = errors.New("the connection was given up")
	// errNotModern says that the server does not speak the modern era.
	errNotModern = errors.New("the server does not speak the modern era")
)

const (
	// defaultIdle ends a connection besides the shared one where the
	// configuration sets no time.
	defaultIdle = 15 * time.Minute
	// failedIdle is how long such a connection that failed is remembered.
	failedIdle = time.Minute
)

// slotKey tells the connections of one upstream apart. The zero key is the
// shared one.
type slotKey struct {
	session *mcp.Session // nil: all sessions
	modern  bool         // the second connection to an HTTP server of both eras
}

// slot is a place for a connection: one goroutine makes it, watches it and
// makes it again.
type slot struct {
	u      *Upstream
	key    slotKey
	ctx    context.Context // ends with the upstream, or the session
	cancel context.CancelFunc
	wake   chan struct{}   // capacity 1: a call wants a connection now
	lost   chan brokenLink // capacity 1: a call has found it broken
	relist chan struct{}   // capacity 1: the lists have changed

	program  *sharedProgram       // that the connection needs, or nil; only run uses it
	greeting atomic.Pointer[junk] // of the server that is being greeted, or was last; may be nil
	line     *subscription.Line   // what sessions want to hear over the connection

	mu       sync.Mutex // guards below
	state    State
	since    time.Time
	changed  chan struct{} // closed, and replaced, when state changes
	link     *link         // while ready
	calls    int           // users of link
	waiting  int           // calls that wait for a link
	called   bool          // link was used by a call
	used     time.Time
	err      error     // why it failed last; nil while ready
	failures int       // in a row
	attempts int       // that failed, ever
	tried    time.Time // end of the last attempt that failed
	next     time.Time // no attempt before this one
	lostAt   time.Time // when a connection was lost last
	down     time.Time // since when it cannot be had; zero where it can
	otherEra bool      // begin with the other era next time
	lostOne  bool      // the next connection replaces one that was lost
}

// brokenLink is what a call reports.
type brokenLink struct {
	link *link
	err  error
}

func newSlot(u *Upstream, key slotKey) *slot {
	s := &slot{
		u: u, key: key, state: StateStarting, since: time.Now(), changed: make(chan struct{}),
		wake: make(chan struct{}, 1), lost: make(chan brokenLink, 1), relist: make(chan struct{}, 1),
	}
	s.line = u.subs.NewLine(subscription.LineOptions{Shared: s.isShared(), Session: key.session, Modern: key.modern, Current: s.current})
	s.ctx, s.cancel = context.WithCancel(u.ctx)
	return s
}

// current returns the connection while the slot is ready, else nil.
func (s *slot) current() subscription.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return nil
	}
	return s.link
}

// isShared reports whether it is the slot that lists, and serves all sessions.
func (s *slot) isShared() bool { return s.key == slotKey{} }

// nudge puts a token into a channel of capacity 1.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// refresh asks for new lists.
func (s *slot) refresh() { nudge(s.relist) }

// missedNotices is called after a time in which the server could not tell of changes.
func (s *slot) missedNotices() {
	if s.isShared() {
		s.refresh()
	}
}

// set changes the state and wakes who waits for that. It is called under mu.
func (s *slot) set(state State) {
	if s.state != state {
		s.state, s.since = state, time.Now()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *slot) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// quiet reports since when nobody uses the slot; ok is false while somebody
// does.
func (s *slot) quiet() (used time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.calls == 0 && !s.line.Held() && s.state != StateStarting
}

// drop reports that a connection is of no use any more. The next acquire waits
// for another.
func (s *slot) drop(l *link, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return
	}
	s.lose(err)
	select {
	case s.lost <- brokenLink{l, err}:
	default: // the link ended at the same time, and is being replaced
	}
}

// lose notes that the connection is gone. It is called under mu.
func (s *slot) lose(err error) {
	now := time.Now()
	if now.Sub(s.since) >= stableAfter {
		s.failures = 0
	}
	s.failures++
	s.link, s.err, s.lostAt, s.tried = nil, err, now, time.Time{}
	s.next = now.Add(backoff(s.failures))
	s.lostOne = true
	if s.isShared() && !s.u.onDemand() {
		s.down = now
	}
	s.set(StateFailed)
}

// auto reports whether the connection is made again although no call wants it.
// It is called under mu.
func (s *slot) auto() bool {
	if !s.isShared() {
		return s.line.Held()
	}
	return !s.u.onDemand() || !s.u.lists.listed.Load() || s.line.Held() || !s.down.IsZero()
}

// run supervises the connection until the slot ends.
func (s *slot) run() {
	defer func() {
		s.leaveProgram(false)
		s.mu.Lock()
		s.set(StateStopped)
		s.mu.Unlock()
		s.cancel()
		s.u.forget(s)
	}()
	if session := s.key.session; session != nil {
		defer session.OnClose(s.cancel)()
	}
	if s.u.after != nil {
		select {
		case <-s.u.after:
		case <-s.ctx.Done():
			return
		}
	}
	for s.ctx.Err() == nil {
		version := s.begin()
		l, err := s.u.connect(s, version)
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

// begin notes that an attempt begins, and returns the protocol version to begin
// the handshake with. A server may exit, or be silent, on the greeting of an era
// that it does not speak, so the eras take turns until one has worked.
func (s *slot) begin() (version string) {
	select {
	case <-s.wake: // whoever wanted one gets this one
	default:
	}
	s.u.mu.Lock()
	modern := s.u.modernOnly
	s.u.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(StateStarting)
	if s.key.modern || modern != s.otherEra {
		return mcp.V20260728
	}
	return ""
}

// fail notes an attempt that failed.
func (s *slot) fail(err error) {
	s.mu.Lock()
	same := s.err != nil && s.err.Error() == err.Error()
	now := time.Now()
	s.failures++
	s.attempts++
	if errors.As(err, new(greetingError)) {
		s.otherEra = !s.otherEra
	}
	s.err, s.tried, s.next = err, now, now.Add(backoff(s.failures))
	if s.isShared() && s.down.IsZero() {
		s.down = now
	}
	next := s.next.Sub(now)
	s.set(StateFailed)
	s.mu.Unlock()
	switch {
	case errors.Is(err, errNotModern):
		return
	case same:
		s.u.log.Debug("the server still cannot be started", "err", err, "retry_in", next)
	default:
		s.u.log.Warn("the server cannot be started or reached", "err", err, "retry_in", next.Round(time.Millisecond))
	}
	if s.isShared() {
		s.u.settle()
	}
}

// pause waits until the next attempt is due or wanted, and reports whether
// there is to be one.
func (s *slot) pause() bool {
	forget := time.NewTimer(failedIdle)
	defer forget.Stop()
	for {
		s.mu.Lock()
		var due, gone <-chan time.Time
		if s.auto() {
			t := time.NewTimer(time.Until(s.next))
			defer t.Stop()
			due = t.C
		}
		if !s.down.IsZero() && s.u.lists.listed.Load() {
			t := time.NewTimer(time.Until(s.down.Add(s.u.opts.Grace)))
			defer t.Stop()
			gone = t.C
		}
		s.mu.Unlock()
		select {
		case <-s.ctx.Done():
			return false
		case <-s.wake:
			return true
		case <-due:
			return true
		case <-gone:
			s.u.lists.remove()
		case <-forget.C:
			if !s.isShared() {
				if _, quiet := s.quiet(); quiet {
					return false
				}
			}
		}
	}
}

// serve keeps a connection until it ends or is not needed, and reports whether
// there is to be another.
func (s *slot) serve(l *link) bool {
	s.mu.Lock()
	select {
	case <-s.lost: // of a link before
	default:
	}
	s.link, s.err, s.down, s.otherEra, s.called, s.used = l, nil, time.Time{}, false, false, time.Now()
	if s.lostOne {
		s.lostOne = false
		s.u.restarts.Add(1)
	}
	s.line.Reset()
	s.set(StateReady)
	s.mu.Unlock()
	s.u.greeted(s, l)

	ctx, cancel := context.WithCancel(s.ctx)
	var tasks sync.WaitGroup
	listed := make(chan struct{})
	if s.isShared() {
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
	cancel()
	keeps := !idle && s.ctx.Err() == nil && outlives(err)
	s.retire(l, keeps)
	tasks.Wait()
	if !keeps {
		s.leaveProgram(!idle && s.ctx.Err() == nil)
	}
	switch {
	case s.ctx.Err() != nil:
		return false
	case !idle:
		s.u.log.Warn("the connection was lost", "err", err)
		return s.pause()
	case !s.isShared():
		return false
	}
	s.u.log.Debug("stopped because it is idle")
	select {
	case <-s.wake:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// watch waits for the end of a connection: err says why it was lost, idle that
// it is not needed.
func (s *slot) watch(l *link, listed <-chan struct{}) (idle bool, err error) {
	timer := time.NewTimer(s.idleTime(false))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.link = nil
			s.set(StateStopped)
			return false, s.ctx.Err()
		case <-l.done:
			err := l.err()
			s.mu.Lock()
			if s.link == l {
				s.lose(err)
			}
			s.mu.Unlock()
			return false, err
		case b := <-s.lost:
			if b.link == l {
				return false, b.err
			}
			continue
		case <-listed:
			listed = nil
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

// idleTime is how long the connection may be unused. What is only there on
// demand and has just been listed is not needed at all until it is called.
func (s *slot) idleTime(unneeded bool) time.Duration {
	u := s.u
	switch {
	case s.isShared() && !u.program():
		return never
	case s.isShared() && unneeded && u.onDemand():
		return 0
	case u.cfg.IdleTimeout > 0:
		return u.cfg.IdleTimeout
	case s.key.session != nil || s.isShared():
		return never
	}
	return defaultIdle
}

// stopIfIdle makes the slot idle, or says how long it may still be unused.
func (s *slot) stopIfIdle(listed bool) (left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.idleTime(listed && !s.called)
	if s.calls > 0 || s.line.Held() || s.waiting > 0 {
		return max(limit, time.Second)
	}
	if left := limit - time.Since(s.used); left > 0 {
		return left
	}
	s.link = nil
	if s.isShared() {
		s.set(StateIdle)
	} else {
		s.set(StateStopped)
	}
	return 0
}
