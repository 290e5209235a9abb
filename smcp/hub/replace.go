package hub

import (
	"context"
	"time"
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

// isGone probes a session whose place another session wants, and reports whether it is silent.
func isGone(s, held *session) bool {
	ctx, cancel := context.WithTimeout(s.socket.Context(), probeTime)
	defer cancel()
	return held.socket.Probe(ctx) != nil && s.socket.Connected()
}

// replaced notes that a session loses its place to another one. The caller holds mu and closes the socket
// afterwards.
func (h *Hub) replaced(held *session, reason string) {
	if held.ended {
		return
	}
	h.log.Info("a session is replaced", "name", held.name, "role", held.role, "principal", held.grant.Principal, "remote", held.socket.Handshake().RemoteAddr, "reason", reason)
	held.ended = true
}
