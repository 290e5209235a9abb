package engineio

import "time"

// A heartbeat decides when a ping is due and when the peer has been silent for too long.
// Session.mu guards it.
//
// Deadlines are absolute: they follow from when a ping was due, never from when a timer fired or a
// GET came.
type heartbeat struct {
	timer  *time.Timer
	pingAt time.Time // when the next ping is due; the session ends env.timeout after it
	pinged bool      // server: waits for the pong
}

// A pulse is what a session does when the timer of its heartbeat fires.
type pulse uint8

const (
	pulseWait pulse = iota // nothing: the timer is set anew
	pulsePing              // send a ping
	pulseDead              // end the session
)

// start sets the timer: a server's first ping is due after wait, a client's session ends then.
func (h *heartbeat) start(interval, wait time.Duration, beat func()) {
	h.pingAt = time.Now().Add(interval)
	h.timer = time.AfterFunc(wait, beat)
}

// server returns what a server does now. busy says that the receiver of this side keeps the session
// from reading the pong.
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
	case busy: // The client still has to hear from the server.
		h.pingAt = now
		h.timer.Reset(timeout)
		return pulsePing
	}
	return pulseDead
}

// client returns what a client does now; busy is that of server, for the ping.
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

// gotPong takes the answer to a server's ping. It ignores a pong without a ping, which some clients
// begin with.
func (h *heartbeat) gotPong(interval time.Duration) {
	if h.pinged {
		h.pinged = false
		h.pingAt = time.Now().Add(interval)
		h.timer.Reset(interval)
	}
}

// gotPing takes a server's ping.
func (h *heartbeat) gotPing(interval, timeout time.Duration) {
	h.pingAt = time.Now().Add(interval)
	h.timer.Reset(interval + timeout)
}

// overdue reports whether the pong is late, for requests that come before the timer fires.
func (h *heartbeat) overdue(timeout time.Duration) bool {
	return !time.Now().Before(h.pingAt.Add(timeout))
}
