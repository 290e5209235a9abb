package upstream

import (
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
)

// State is the state of an upstream.
type State string

// The states. An idle server starts with the next call. A server that is left out is never started
// again, which is not a failure.
const (
	StateStarting State = "starting"
	StateReady    State = "ready"
	StateIdle     State = "idle"
	StateFailed   State = "failed"
	StateStopped  State = "stopped"
	StateDisabled State = "disabled"
	StateLeftOut  State = "left_out" // it is weir itself
	StateSignIn   State = "sign_in"  // a person has to sign in first; see internal/signin/oauth
)

// Status describes one upstream to an operator.
type Status struct {
	Name      string              `json:"name"`
	Namespace string              `json:"namespace"`
	Transport mcpserver.Transport `json:"transport"`
	State     State               `json:"state"`
	Since     time.Time           `json:"since"` // of State
	// Version is the protocol version, Modern its era, ServerInfo the server's raw object. They
	// stay known while the server is down.
	Version    string          `json:"version,omitempty"`
	Modern     bool            `json:"modern,omitempty"`
	ServerInfo json.RawMessage `json:"server_info,omitempty"`
	Pid        int             `json:"pid,omitempty"` // of its program while it runs

	// OwnLists says that the server lists for each principal. Listed is true then, and the numbers
	// belong to no principal: see Manager.OwnLists.
	OwnLists  bool `json:"own_lists,omitempty"`
	Listed    bool `json:"listed"`
	Tools     int  `json:"tools"`
	Resources int  `json:"resources"` // templates included
	Prompts   int  `json:"prompts"`

	Calls    int64 `json:"calls"`
	Errors   int64 `json:"errors"` // calls without an answer
	InFlight int64 `json:"in_flight"`
	Restarts int64 `json:"restarts"` // after the loss of a connection
	// Sessions is the number of agent sessions with a connection of their own.
	Sessions int `json:"sessions"`
	// Principals is the number of principals with a connection of their own.
	Principals int `json:"principals,omitempty"`

	LastError string `json:"last_error,omitempty"`
	// Note explains the state of a server that has been starting for a while without a failure, or
	// that is left out.
	Note string `json:"note,omitempty"`
	// NextTry is the time of the next attempt after a failure; zero if only a call starts one.
	NextTry time.Time `json:"next_try,omitzero"`
}

// slowStart is the time after which a starting server gets a Note.
const slowStart = 5 * time.Second

// Available reports whether calls may succeed.
func (s Status) Available() bool {
	return s.State == StateReady || s.State == StateIdle || s.State == StateStarting
}

// Off reports whether the server is intentionally not running: it is disabled, or left out.
func (s Status) Off() bool { return s.State == StateDisabled || s.State == StateLeftOut }

// Status returns the upstream's current state.
func (u *Upstream) Status() Status {
	st := Status{
		Name: u.name, Namespace: u.cfg.Namespace, Transport: u.transport(),
		Listed: u.lists.listed.Load(), Calls: u.calls.Load(), Errors: u.failures.Load(), InFlight: u.inFlight.Load(), Restarts: u.conns.restarts.Load(),
	}
	u.conns.shared.calls.report(&st, u.opts.Redact)
	if st.State == StateFailed && needsSignIn(u.conns.shared.calls.lastError()) {
		st.State, st.NextTry = StateSignIn, time.Time{}
	}
	if u.lists.perCaller() {
		u.lists.own.report(&st)
	}
	if d := time.Since(st.Since); st.State == StateStarting && st.LastError == "" && d >= slowStart {
		st.Note = "has not answered for " + d.Round(time.Second).String()
		if j := u.conns.shared.greeting.Load(); j != nil {
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
	u.conns.report(&st)
	return st
}

// StateOf returns the state of the server for one principal. Where each principal has a credential of
// its own, the state of the connection that lists says whether others have signed in. own is false for
// other servers, and for one that is neither ready nor waits for calls or a sign-in: all principals
// have its state.
func (u *Upstream) StateOf(principal string) (state State, own bool) {
	if !u.cfg.PerPrincipal() || u.opts.Credentials == nil {
		return "", false
	}
	if now := u.Status().State; now != StateSignIn && now != StateIdle && now != StateReady {
		return now, false
	}
	if !u.signedIn(principal) {
		return StateSignIn, true
	}
	if u.conns.isReady(func(own string) bool { return own == principal }) {
		return StateReady, true
	}
	return StateIdle, true
}
