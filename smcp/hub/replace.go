package hub

import (
	"context"
	"time"

	"github.com/weir-mcp/weir/smcp"
)

// A peer whose machine dies leaves a connection that looks alive until its
// heartbeat fails, and the place in the office with it. Who comes back to that
// place gets it sooner:
//
//	join ─▶ place is held by another session
//	          ├─ both have proven the same key ────────▶ the old session is put out at once
//	          ├─ the same credentials and name ─▶ probe ─▶ silent: put out
//	          └─ of another owner                   └────▶ answers: refused
//
// Two processes with one key would put each other out for ever. So the one that
// was put out last has to find the other silent before it gets the place back.

const (
	probeTime   = 2 * time.Second // that a session has to answer
	maxReplaced = 3               // sessions that one join may find silent
)

// holder returns the session of the same owner that holds the place a join wants,
// nil where there is none. It is called under mu.
func (h *Hub) holder(s *session, o *office, req *smcp.Join) *session {
	held := o.computers[req.Name]
	if req.Role == smcp.RoleAgent {
		held = o.agent
	}
	switch {
	case held == nil || held == s || held.own || held.name != req.Name:
		return nil
	case req.Role == smcp.RoleAgent && s.office != nil:
		return nil // it has to leave the other office first
	case s.key != nil || held.key != nil:
		if !s.key.Equal(held.key) {
			return nil
		}
	case s.grant.Principal != held.grant.Principal:
		return nil
	}
	return held
}

// replaces reports whether the proof of its key is enough for a session to take
// the place of held. It is called under mu.
func (s *session) replaces(held *session, req *smcp.Join) bool {
	return s.key != nil && (req.Instance == "" || req.Instance != held.ousted)
}

// inherit notes which process a session has replaced. It is called under mu.
func (s *session) inherit(held *session, req *smcp.Join) {
	s.ousted = held.instance
	if held.instance == req.Instance {
		s.ousted = held.ousted // the same process, on a new connection
	}
}

// isGone asks a session for a sign of life, for one that wants its place.
func isGone(s, held *session) bool {
	ctx, cancel := context.WithTimeout(s.socket.Context(), probeTime)
	defer cancel()
	return held.socket.Probe(ctx) != nil && s.socket.Connected()
}

// evict takes a session out of its office and ends its connection.
func (h *Hub) evict(held *session, why string) {
	h.mu.Lock()
	h.evictLocked(held, why)
	h.mu.Unlock()
	held.socket.Close() // its calls are answered
}

// evictLocked is the part of evict that belongs to mu. The caller closes the socket
// after that.
func (h *Hub) evictLocked(held *session, why string) {
	if held.ended {
		return
	}
	h.log.Info("a session is replaced", "name", held.name, "role", held.role, "principal", held.grant.Principal, "remote", held.socket.Handshake().RemoteAddr, "reason", why)
	h.leaveLocked(held)
	held.ended = true
}
