package engineio

import "time"

// heartbeat decides when a ping is due and when the peer has been silent for too long. Session.mu
// guards it.
//
// Deadlines are absolute: they depend on when a ping was due, not on when a timer fired or a GET
// arrived.
type heartbeat struct {
	timer  *time.Timer
	pingAt time.Time // when the next ping is due; the session ends env.timeout after it
	pinged bool      // server: waits for the pong
}

// pulse is the action of a session when its heartbeat timer fires.
type pulse uint8

const (
	pulseWait pulse = iota // no action: set the timer again
	pulsePing              // send a ping
	pulseDead              // end the session
)

// start sets the timer. A server's first ping is due after wait; a client's session ends after
// wait.
func (h *heartbeat) start(interval, wait time.Duration, beat func()) {
	h.pingAt = time.Now().Add(interval)
	h.timer = time.AfterFunc(wait, beat)
}

// server returns the next action of a server. busy means that the receiver keeps the session from
// reading the pong.
func (h *heartbeat) server(timeout time.Duration, busy bool) pulse {
	now, deadline := time.Now(), h.pingAt.Add(timeout)
	switch {
	case now.Before(h.pingAt):
		h.timer.Reset(h.pingAt.Sub(now))
		return pulseWait
	case !h.pinged:
		h.pinged = true
		h.timer.Reset(deadline.Sub(now))
		return pulsePing
	case now.Before(deadline):
		h.timer.Reset(deadline.Sub(now))
		return pulseWait
	case busy: // the client still expects pings
		h.pingAt = now
		h.timer.Reset(timeout)
		return pulsePing
	}
	return pulseDead
}

// client returns the next action of a client. busy means that the receiver keeps the session from
// reading the ping.
func (h *heartbeat) client(timeout time.Duration, busy bool) pulse {
	now, deadline := time.Now(), h.pingAt.Add(timeout)
	switch {
	case now.Before(deadline):
		h.timer.Reset(deadline.Sub(now))
		return pulseWait
	case busy:
		h.pingAt = now
		h.timer.Reset(timeout)
		return pulseWait
	}
	return pulseDead
}

// gotPong handles the answer to a server's ping. It ignores an unexpected pong, which some clients
// send first.
func (h *heartbeat) gotPong(interval time.Duration) {
	if h.pinged {
		h.pinged = false
		h.pingAt = time.Now().Add(interval)
		h.timer.Reset(interval)
	}
}

// gotPing handles a server's ping.
func (h *heartbeat) gotPing(interval, timeout time.Duration) {
	h.pingAt = time.Now().Add(interval)
	h.timer.Reset(interval + timeout)
}

// overdue reports whether the pong is late. It serves requests that arrive before the timer fires.
func (h *heartbeat) overdue(timeout time.Duration) bool {
	return !time.Now().Before(h.pingAt.Add(timeout))
}
