package member

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// retellAfter is the interval at which a lasting refusal is logged again. The peer retries all the
// time, because the cause may be removed at the hub, and a line for each attempt would flood the log.
const retellAfter = 5 * time.Minute

// takenTime is how long a "name taken" error may be temporary: the hub needs this long to notice that
// an old connection is dead.
const takenTime = 90 * time.Second

// refusals counts consecutive refusals of a peer.
type refusals struct {
	mu    sync.Mutex // guards below
	text  string
	since time.Time // of the first refusal with this text
	told  time.Time
	times int
}

// heard records a refusal. It reports whether to log it, how often it has occurred and since how
// long.
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

// end clears the count after the hub has accepted the peer.
func (r *refusals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = ""
}

// joinRefusal is the hub's rejection of a join.
type joinRefusal struct{ error }

func (r joinRefusal) Unwrap() error { return r.error }

// lasting reports whether an error of connecting or joining persists until a configuration changes,
// here or at the hub. after is how long it must persist before that is certain. An unreachable or
// busy hub is not a lasting error.
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
	// Before 0.5 an error has only a text.
	text := join.Error()
	switch {
	case strings.Contains(text, "which is the bound"), strings.Contains(text, "Too many"):
		return false, 0
	case strings.Contains(text, "already"), strings.Contains(text, a2c.ErrRoomTaken.Draft):
		return true, takenTime
	}
	return true, 0
}

// refused reports whether an error is a lasting refusal. If so, it logs it and calls OnRefused.
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
