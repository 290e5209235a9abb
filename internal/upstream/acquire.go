package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// acquire returns the connection, which it wakes and waits for, and which stays
// until release unless it breaks.
func (s *slot) acquire(ctx context.Context) (*link, error) {
	s.mu.Lock()
	if s.state == StateReady {
		l := s.take()
		s.mu.Unlock()
		return l, nil
	}
	s.waiting++
	defer func() {
		s.waiting--
		s.mu.Unlock()
	}()
	begin, seen := time.Now(), s.attempts
	budget := time.NewTimer(s.u.opts.ReadyBudget)
	defer budget.Stop()
	for {
		now := time.Now()
		var retry <-chan time.Time
		var timer *time.Timer
		switch s.state {
		case StateReady:
			return s.take(), nil
		case StateStopped:
			return nil, errSlotEnded
		case StateLeftOut:
			return nil, s.unavailable()
		case StateIdle:
			nudge(s.wake)
		case StateFailed:
			// What was there until a moment ago is given the time to come back;
			// of what is down for longer, one attempt must be enough.
			recent := !s.lostAt.IsZero() && now.Sub(s.lostAt) < s.u.comeback()
			wait := s.next.Sub(now)
			switch {
			case errors.Is(s.err, errNotModern):
				return nil, errNotModern
			case s.attempts > seen && !recent:
				return nil, s.unavailable()
			case wait <= 0, wait > kickAfter && now.Sub(s.tried) >= kickAfter:
				nudge(s.wake)
			case wait > kickAfter && !recent:
				return nil, s.unavailable()
			case wait > kickAfter:
				timer = time.NewTimer(s.tried.Add(kickAfter).Sub(now))
				retry = timer.C
			default:
				timer = time.NewTimer(wait)
				retry = timer.C
			}
		}
		changed := s.changed
		s.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			err = ctx.Err()
		case <-budget.C:
			err = mcp.Errorf(mcp.KindUpstreamStarting, "%s has not become ready within %s; try again in a while", s.u.who, time.Since(begin).Round(time.Second/10))
		}
		if timer != nil {
			timer.Stop()
		}
		s.mu.Lock()
		if err != nil && s.err != nil && s.state != StateReady && ctx.Err() == nil {
			err = s.unavailable() // it is known why it does not become ready
		}
		if err != nil {
			return nil, err
		}
	}
}

// remoteComeback is how long after its loss a server that somebody else runs may
// be expected back.
const remoteComeback = 3 * time.Second

// comeback is how long after a loss calls wait for more than one attempt.
func (u *Upstream) comeback() time.Duration {
	if u.program() {
		return u.opts.ReadyBudget
	}
	return min(remoteComeback, u.opts.ReadyBudget)
}

// unavailable is the error of a slot that failed. It is called under mu.
func (s *slot) unavailable() error {
	e := &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: s.u.who + " is not available", Err: s.err}
	if s.err != nil {
		e.Message += ": " + s.err.Error()
	}
	if errors.Is(s.err, mcp.ErrFinal) {
		// Its configuration is wrong: an agent that tries again gains nothing.
		e.Kind = mcp.KindUpstreamProtocol
		if k, _ := mcp.KindOf(s.err); k == mcp.KindUnauthorized || k == mcp.KindPermissionDenied {
			e.Kind = k
		}
	}
	e.SetRetryAfter(mcp.RetryAfter(s.err))
	return e
}

// take counts a user of the connection. It is called under mu.
func (s *slot) take() *link {
	s.calls++
	s.called = true
	s.link.users++
	return s.link
}

// release gives back what acquire returned.
func (s *slot) release(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.used = time.Now()
	if l.users--; l.users == 0 && l.retired != nil {
		close(l.retired)
	}
}

// retireTime is how long the calls over an HTTP connection whose session is lost
// get to be answered.
const retireTime = time.Minute

// retire closes a connection that nobody gets any more. Calls over HTTP do not
// depend on each other: those whose answers are on their way get them first,
// unless the program that is to answer ends, too.
func (s *slot) retire(l *link, keeps bool) {
	s.mu.Lock()
	l.retired = make(chan struct{})
	if l.users == 0 {
		close(l.retired)
	}
	s.mu.Unlock()
	if !l.http || l.pid != 0 && !keeps {
		l.close()
		return
	}
	s.u.wg.Go(func() { // the caller's goroutine is in wg, too
		defer l.close()
		timer := time.NewTimer(retireTime)
		defer timer.Stop()
		select {
		case <-l.retired:
		case <-timer.C:
		case <-s.ctx.Done():
		}
	})
}
