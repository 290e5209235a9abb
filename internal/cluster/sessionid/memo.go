package sessionid

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/mcp"
)

// restoreTime bounds how long the first request of an adopted session waits for its subscriptions.
// Servers may still be starting.
const restoreTime = 12 * time.Second

// A Keeper is an Endpoint around the Handler of its sessions. It keeps the log level and the
// subscriptions of a session before the client has the answer, and makes them again for a session that
// is adopted.
type Keeper struct {
	*Endpoint
	next   mcp.Handler
	resume func(ctx context.Context, s *mcp.Session)
	live   live
	ending func(context.Context) // nil: nothing is handed over
}

// Around returns a Keeper. resume is called for each adopted session before its subscriptions are made;
// it may be nil.
func (e *Endpoint) Around(next mcp.Handler, resume func(ctx context.Context, s *mcp.Session)) *Keeper {
	return &Keeper{Endpoint: e, next: next, resume: resume}
}

// memoKey is the key of a memo in its session.
type memoKey struct{}

// memo is what an Endpoint knows of a session that can be adopted.
type memo struct {
	born time.Time
	late bool        // the session is of before the restart, or of before it was idle
	full atomic.Bool // the log was told

	leaves atomic.Pointer[func() json.RawMessage] // OnLeave
	left   *handover                              // what the last node has left; nil: nothing

	mu   sync.Mutex // guards below
	kept record     // of before the adoption, with the subscriptions as they are kept now
}

// holds reports whether a subscription is known to be kept.
func (m *memo) holds(uri string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.kept.Resources, uri)
}

// hold notes whether a subscription is kept.
func (m *memo) hold(uri string, has bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.Resources = slices.DeleteFunc(m.kept.Resources, func(one string) bool { return one == uri })
	if has {
		m.kept.Resources = append(m.kept.Resources, uri)
	}
}

// Serve implements mcp.Handler.
func (k *Keeper) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Method == "initialize" && !r.Modern() {
		// Before the answer: the id, which is made meanwhile, never says an earlier birth than this.
		r.Session.Value(memoKey{}, func() any { return &memo{born: time.Now()} })
	}
	m, _ := r.Session.Value(memoKey{}, nil).(*memo)
	if m == nil || r.Modern() || !recorded(r.Method) {
		return k.next.Serve(ctx, r) // no record, or none of this: the session may end with its request
	}
	if _, ok := sealable(r.Session, m.born); !ok {
		return k.next.Serve(ctx, r) // it ends with the process
	}
	uri := rawjson.Text(r.Fields().URI)
	switch r.Method {
	case methodUnsubscribe:
		// The record comes first. If the store does not take it, the subscription stays, as the answer says.
		if err := k.keep(ctx, r, m, func(d *record) bool {
			before := len(d.Resources)
			d.Resources = slices.DeleteFunc(d.Resources, func(one string) bool { return one == uri })
			return len(d.Resources) < before
		}); err != nil {
			return nil, err
		}
		m.hold(uri, false)
		return k.next.Serve(ctx, r)
	case methodSubscribe:
		answer, err := k.next.Serve(ctx, r)
		if err != nil || m.holds(uri) {
			return answer, err
		}
		if err := k.keep(ctx, r, m, func(d *record) bool {
			if slices.Contains(d.Resources, uri) {
				return false
			}
			d.Resources = append(d.Resources, uri)
			return true
		}); err != nil {
			k.withdraw(ctx, r)
			return nil, err
		}
		m.hold(uri, true)
		return answer, nil
	}
	answer, err := k.next.Serve(ctx, r)
	if err != nil {
		return nil, err
	}
	return answer, k.keep(ctx, r, m, func(d *record) bool {
		level := r.Session.LogLevel()
		differs := d.Level != level
		d.Level = level
		return differs
	})
}

// The methods of which a record is kept.
const (
	methodLevel       = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
)

func recorded(method string) bool {
	return method == methodLevel || method == methodSubscribe || method == methodUnsubscribe
}

// keep changes the record of a session. The error is for the client.
func (k *Keeper) keep(ctx context.Context, r *mcp.Request, m *memo, change func(*record) bool) error {
	err := k.ids.change(ctx, placeOf(r.Session.Principal(), r.Session.ID(), m.born.Unix()), change)
	switch {
	case errors.Is(err, errLarge):
		if m.full.CompareAndSwap(false, true) {
			k.ids.log.Warn("a session has no room for further subscriptions", "session", telemetry.SessionTag(r.Session.ID()), "bytes", recordBytes)
		}
		return mcp.Errorf(mcp.KindOverloaded, "the URIs to which this session is subscribed have over %d KB, which is the bound; unsubscribe from some", recordBytes>>10)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// withdraw ends a subscription of which the client is told that it failed.
func (k *Keeper) withdraw(ctx context.Context, r *mcp.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTime)
	defer cancel()
	back := *r
	back.ID, back.Method = `"withdraw"`, methodUnsubscribe
	if _, err := k.next.Serve(ctx, &back); err != nil {
		k.ids.log.Warn("a subscription that the store did not keep stays until its session ends", "session", telemetry.SessionTag(r.Session.ID()), "err", err)
	}
}

// Restore makes the log level and the subscriptions of an adopted session again. A subscription that a
// server refuses now, or does not confirm in time, is left to the next adoption.
func (k *Keeper) Restore(ctx context.Context, s *mcp.Session) {
	if k.resume != nil {
		k.resume(ctx, s)
	}
	m, _ := s.Value(memoKey{}, nil).(*memo)
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restoreTime)
	defer cancel()
	again := func(method, member, value string) {
		params := append(rawjson.AppendString([]byte(`{"`+member+`":`), value), '}')
		_, _ = k.next.Serve(ctx, &mcp.Request{ID: `"restore"`, Method: method, Params: params, Version: s.Version(), Session: s, Peer: mcp.NoPeer})
	}
	if m.kept.Level != "" {
		again(methodLevel, "level", m.kept.Level)
	}
	m.mu.Lock()
	resources := slices.Clone(m.kept.Resources)
	m.mu.Unlock()
	for _, uri := range resources {
		again(methodSubscribe, "uri", uri)
	}
	m.deliver(ctx, s)
}

// Born returns when the handshake of a session was, however often it was adopted since. ok is false for
// sessions that no Keeper serves.
func Born(s *mcp.Session) (born time.Time, ok bool) {
	m, ok := s.Value(memoKey{}, nil).(*memo)
	if !ok {
		return born, false
	}
	return m.born, true
}

// Adopted reports whether a session was made again from its id.
func Adopted(s *mcp.Session) bool {
	m, ok := s.Value(memoKey{}, nil).(*memo)
	return ok && m.late
}
