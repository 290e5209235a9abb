package hub

import (
	"context"
	"sync"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// Bounds of checks of connected peers.
const (
	maxChecks    = 32               // at a time, after SetAccess
	checkTime    = 20 * time.Second // for all of them, and for a later check of one peer
	minCheckWait = 30 * time.Second // between two checks of one peer
)

// checks look after the grants of connected peers. The Hub's mu guards their changes.
type checks struct{ h *Hub }

// all checks all connected peers against the present access, and waits for the checks. An
// Authenticator may ask another machine, so several peers are checked at a time.
func (c checks) all() {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	var running sync.WaitGroup
	turns := make(chan struct{}, maxChecks)
	for _, s := range c.h.ns.To().Sockets() {
		peer, ok := s.Value().(*session)
		if !ok {
			continue
		}
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			c.check(ctx, peer)
		})
	}
	running.Wait()
}

// check updates the grant of a connection if the access has changed. It ends the connection if the
// new grant does not allow its office.
func (c checks) check(ctx context.Context, s *session) { c.regrant(ctx, s, false) }

// entered checks a peer that has just connected: the access may have changed since its CONNECT.
func (c checks) entered(ctx context.Context, s *session) {
	c.check(ctx, s)
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.renewLater(s)
}

// renew checks the grant of a connection again at the time that the grant names.
func (c checks) renew(s *session) {
	ctx, cancel := context.WithTimeout(s.socket.Context(), checkTime)
	defer cancel()
	c.regrant(ctx, s, true)
}

// regrant asks the Authenticator about a connected peer: if the access has changed, or always.
func (c checks) regrant(ctx context.Context, s *session, always bool) {
	h := c.h
	if s.own {
		return
	}
	var refused error
	h.mu.Lock()
	for always || s.access != h.access {
		now := h.access
		h.mu.Unlock()
		grant, err := now.auth.Authenticate(ctx, credentials(s.socket))
		h.mu.Lock()
		if now != h.access {
			continue
		}
		if err != nil && undecided(ctx, err) && !s.grant.ended(time.Now()) {
			c.renewAfter(s, minCheckWait)
			name, principal := s.name, s.grant.Principal
			h.mu.Unlock()
			h.log.Debug("a peer keeps what it may do: its credentials could not be checked", "name", name, "principal", principal, "reason", err)
			return
		}
		s.access, always = now, false
		if err == nil {
			s.grant = grant
			err = h.mayStay(s)
		}
		if err == nil && !grant.NeedsProof {
			err = s.socket.Admit()
		}
		refused = err
	}
	if refused == nil {
		c.renewLater(s)
	}
	name, principal := s.name, s.grant.Principal
	h.mu.Unlock()
	if refused != nil {
		h.log.Info("a peer was put out: it may not be connected any more", "name", name, "principal", principal, "remote", s.socket.Handshake().RemoteAddr, "reason", refused)
		s.socket.Close()
	}
}

// undecided reports whether an error of an Authenticator is no refusal: the issuer cannot be asked, or
// the time for its answer is over.
func undecided(ctx context.Context, err error) bool {
	k, _ := mcp.KindOf(err)
	return k == mcp.KindIdentityUnavailable || ctx.Err() != nil
}

// ended reports whether the credentials of a grant are past their end.
func (g Grant) ended(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// renewLater sets the time of the next check of a grant. The caller holds Hub.mu.
func (c checks) renewLater(s *session) {
	if s.grant.Until.IsZero() {
		c.stop(s)
		return
	}
	c.renewAfter(s, max(time.Until(s.grant.Until), minCheckWait))
}

// renewAfter checks a grant after a wait, or at the end of its credentials if that is earlier. The
// caller holds Hub.mu.
func (c checks) renewAfter(s *session, wait time.Duration) {
	c.stop(s)
	if s.ended {
		return
	}
	// Credentials may be accepted shortly after their end: clocks differ.
	if left := time.Until(s.grant.Expires); !s.grant.Expires.IsZero() && left > 0 {
		wait = min(wait, left)
	}
	s.renewal = time.AfterFunc(wait, func() { c.renew(s) })
}

// stop cancels the next check of a grant. The caller holds Hub.mu.
func (checks) stop(s *session) {
	if s.renewal != nil {
		s.renewal.Stop()
		s.renewal = nil
	}
}
