package hub

import (
	"context"
	"time"

	"github.com/weir-mcp/weir/smcp"
)

// When a peer's machine dies, its connection looks alive until the heartbeat fails, and it keeps the
// place in the office. A peer that returns to the place gets it sooner:
//
//	join ─▶ place is held by another session
//	          ├─ both have proven the same key ────────▶ the old session is put out at once
//	          ├─ the same credentials and name ─▶ probe ─▶ silent: put out
//	          └─ of another owner                   └────▶ answers: refused
//
// Two processes with one key would replace each other forever. So the process that was replaced last
// gets the place back only if the other does not answer a probe.

const (
	probeTime   = 2 * time.Second // for the holder to answer
	maxReplaced = 3               // silent sessions that one join may replace
)

// holder returns the session of the same owner that holds the place of a join, or nil. The caller
// holds mu.
func (h *Hub) holder(s *session, o *office, req *smcp.Join) *session {
	held := o.computers[req.Name]
	if req.Role == smcp.RoleAgent {
		held = o.agent
	}
	switch {
	case held == nil || held == s || held.own || held.name != req.Name:
		return nil
	case req.Role == smcp.RoleAgent && s.office != nil:
		return nil // it must leave the other office first
	case s.key != nil || held.key != nil:
		if !s.key.Equal(held.key) {
			return nil
		}
	case s.grant.Principal != held.grant.Principal:
		return nil
	}
	return held
}

// replaces reports whether s may replace held because it has proven the same key. The caller holds
// mu.
func (s *session) replaces(held *session, req *smcp.Join) bool {
	return s.key != nil && (req.Instance == "" || req.Instance != held.ousted)
}

// inherit records which process a session replaced. The caller holds mu.
func (s *session) inherit(held *session, req *smcp.Join) {
	s.ousted = held.instance
	if held.instance == req.Instance {
		s.ousted = held.ousted // the same process on a new connection
	}
}

// isGone probes a session whose place another session wants, and reports whether it is silent.
func isGone(s, held *session) bool {
	ctx, cancel := context.WithTimeout(s.socket.Context(), probeTime)
	defer cancel()
	return held.socket.Probe(ctx) != nil && s.socket.Connected()
}

// evict removes a session from its office and ends its connection.
func (h *Hub) evict(held *session, reason string) {
	h.mu.Lock()
	h.evictLocked(held, reason)
	h.mu.Unlock()
	held.socket.Close() // its calls have been answered
}

// evictLocked removes a session from its office. The caller holds mu and closes the socket
// afterwards.
func (h *Hub) evictLocked(held *session, reason string) {
	if held.ended {
		return
	}
	h.log.Info("a session is replaced", "name", held.name, "role", held.role, "principal", held.grant.Principal, "remote", held.socket.Handshake().RemoteAddr, "reason", reason)
	h.leaveLocked(held)
	held.ended = true
}
