package member

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// A hub that says no says so again and again, because a peer goes on trying: what
// is wrong may be mended at the hub. The log has it once at first, and then as
// often as somebody who comes to look needs it.
const retellAfter = 5 * time.Minute

// takenTime is how long a name or a place may be taken without being taken for
// ever: until a hub has missed the heartbeats of a connection that is dead.
const takenTime = 90 * time.Second

// refusals are the noes in a row that a peer has heard.
type refusals struct {
	mu    sync.Mutex // guards below
	text  string
	since time.Time // the first with this text
	told  time.Time
	times int
}

// heard notes a refusal and reports whether it is to be told, how often it has
// come and for how long.
func (r *refusals) heard(text string) (tell bool, times int, lasts time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.text != text {
		r.text, r.since, r.told, r.times = text, now, time.Time{}, 0
	}
	r.times++
	if tell = r.told.IsZero() || now.Sub(r.told) >= retellAfter; tell {
		r.told = now
	}
	return tell, r.times, now.Sub(r.since)
}

// end forgets them: the hub has said yes.
func (r *refusals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = ""
}

// joinRefusal is a hub's no to a join.
type joinRefusal struct{ error }

func (r joinRefusal) Unwrap() error { return r.error }

// lasting reports whether an error of connecting or joining is a no that stays
// until somebody changes something here or at the hub, and how long it has to
// come before that is certain. A hub that is away, or busy, is none.
func lasting(err error) (is bool, after time.Duration) {
	var shake *engineio.HandshakeError
	var denied *socketio.ConnectError
	var certificate *tls.CertificateVerificationError
	var plaintext tls.RecordHeaderError
	var join joinRefusal
	switch {
	case errors.As(err, &shake):
		switch shake.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return false, 0
		}
		return shake.Status >= 400 && shake.Status < 500, 0
	case errors.As(err, &denied), errors.As(err, &certificate), errors.As(err, &plaintext):
		return true, 0
	case errors.As(err, &join):
		return lastingJoin(join)
	}
	return false, 0
}

func lastingJoin(join joinRefusal) (is bool, after time.Duration) {
	var e *smcp.Error
	if errors.As(join.error, &e) {
		switch e.Code {
		case smcp.CodeBusy, smcp.CodeInternal, smcp.CodeTimeout, smcp.CodeTimeout02:
			return false, 0
		case smcp.CodeRoomTaken:
			return true, takenTime
		}
	}
	// Before 0.5 there is only the text.
	text := join.Error()
	switch {
	case strings.Contains(text, "which is the bound"), strings.Contains(text, "Too many"):
		return false, 0
	case strings.Contains(text, "already"), strings.Contains(text, smcp.ErrRoomTaken.Draft):
		return true, takenTime
	}
	return true, 0
}

// refused tells of an error that is a refusal, and reports whether it is one.
func (m *Member) refused(raw, err error) bool {
	is, after := lasting(raw)
	if !is {
		return false
	}
	tell, times, lasts := m.refusals.heard(err.Error())
	if tell {
		m.log.Warn("the hub refuses this peer; it is tried again until that changes", "office", m.Office(), "name", m.o.Name, "reason", err, "times", times, "for", lasts.Round(time.Second))
	}
	if m.o.OnRefused != nil && lasts >= after {
		m.o.OnRefused(err)
	}
	return true
}
