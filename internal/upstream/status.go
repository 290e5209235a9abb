package upstream

import (
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/internal/config"
)

// State is what an upstream is doing.
type State string

// The states. A server that is idle starts with the next call. One that is left out
// is never started again, and is no failure.
const (
	StateStarting State = "starting"
	StateReady    State = "ready"
	StateIdle     State = "idle"
	StateFailed   State = "failed"
	StateStopped  State = "stopped"
	StateDisabled State = "disabled"
	StateLeftOut  State = "left_out" // it is weir itself
)

// Status is what an operator wants to know of one upstream.
type Status struct {
	Name      string           `json:"name"`
	Namespace string           `json:"namespace"`
	Transport config.Transport `json:"transport"`
	State     State            `json:"state"`
	Since     time.Time        `json:"since"` // of State
	// Version is the protocol version spoken, Modern its era, ServerInfo the
	// server's raw object. They stay known while it is down.
	Version    string          `json:"version,omitempty"`
	Modern     bool            `json:"modern,omitempty"`
	ServerInfo json.RawMessage `json:"server_info,omitempty"`
	Pid        int             `json:"pid,omitempty"` // of its program while it runs

	Listed    bool `json:"listed"`
	Tools     int  `json:"tools"`
	Resources int  `json:"resources"` // templates included
	Prompts   int  `json:"prompts"`

	Calls    int64 `json:"calls"`
	Errors   int64 `json:"errors"` // calls without an answer
	InFlight int64 `json:"in_flight"`
	Restarts int64 `json:"restarts"` // after a connection was lost
	// Sessions is how many agent sessions have a connection of their own.
	Sessions int `json:"sessions"`

	LastError string `json:"last_error,omitempty"`
	// Note is what can be said of a server that has been starting for a while and
	// has not failed yet, and of one that is left out.
	Note string `json:"note,omitempty"`
	// NextTry is when a failed upstream is started again; zero where only a
	// call does it.
	NextTry time.Time `json:"next_try,omitzero"`
}

// slowStart is how long a server may be starting before that is worth a note.
const slowStart = 5 * time.Second

// Available reports whether calls have a chance.
func (s Status) Available() bool {
	return s.State == StateReady || s.State == StateIdle || s.State == StateStarting
}

// Off reports whether the server is not meant to be there: it is disabled, or left
// out.
func (s Status) Off() bool { return s.State == StateDisabled || s.State == StateLeftOut }

// Status returns the upstream's state now.
func (u *Upstream) Status() Status {
	st := Status{
		Name: u.name, Namespace: u.cfg.Namespace, Transport: u.transport(),
		Listed: u.lists.listed.Load(), Calls: u.calls.Load(), Errors: u.failures.Load(), InFlight: u.inFlight.Load(), Restarts: u.restarts.Load(),
	}
	u.shared.calls.report(&st, u.opts.Redact)
	if d := time.Since(st.Since); st.State == StateStarting && st.LastError == "" && d >= slowStart {
		st.Note = "has not answered for " + d.Round(time.Second).String()
		if j := u.shared.greeting.Load(); j != nil {
			st.Note += j.hint()
		}
	}
	hello := u.lastHello()
	counts, listErr := u.lists.state()
	st.Version, st.Modern, st.ServerInfo = hello.Version, hello.Modern, hello.ServerInfo
	st.Tools, st.Resources, st.Prompts = counts[0], counts[1], counts[2]
	if st.LastError == "" && listErr != nil {
		st.LastError = u.opts.Redact(listErr.Error())
	}
	u.slotsMu.Lock()
	defer u.slotsMu.Unlock()
	for key := range u.slots {
		if key.session != nil {
			st.Sessions++
		}
	}
	return st
}
