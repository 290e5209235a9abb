package sessionid

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
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
}

// Around returns a Keeper. resume is called for each adopted session before its subscriptions are made;
// it may be nil.
func (e *Endpoint) Around(next mcp.Handler, resume func(ctx context.Context, s *mcp.Session)) *Keeper {
	return &Keeper{e, next, resume}
}

// memoKey is the key of a memo in its session.
type memoKey struct{}

// memo is what an Endpoint knows of a session that can be adopted.
type memo struct {
	born time.Time
	kept record // of before the adoption
}

// Serve implements mcp.Handler.
func (k *Keeper) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Method == "initialize" && !r.Modern() {
		// Before the answer: the id, which is made meanwhile, never says an earlier birth than this.
		r.Session.Value(memoKey{}, func() any { return &memo{born: time.Now()} })
	}
	answer, err := k.next.Serve(ctx, r)
	if err != nil || r.Modern() {
		return answer, err
	}
	var change func(*record) bool
	switch r.Method {
	case "logging/setLevel":
		change = func(d *record) bool {
			level := r.Session.LogLevel()
			differs := d.Level != level
			d.Level = level
			return differs
		}
	case "resources/subscribe":
		uri := rawjson.Text(r.Fields().URI)
		change = func(d *record) bool {
			if slices.Contains(d.Resources, uri) {
				return false
			}
			d.Resources = append(d.Resources, uri)
			return true
		}
	case "resources/unsubscribe":
		uri := rawjson.Text(r.Fields().URI)
		change = func(d *record) bool {
			before := len(d.Resources)
			d.Resources = slices.DeleteFunc(d.Resources, func(one string) bool { return one == uri })
			return len(d.Resources) < before
		}
	default:
		return answer, nil
	}
	m, _ := r.Session.Value(memoKey{}, nil).(*memo)
	if m == nil {
		return answer, nil // the session ends with its request
	}
	if _, ok := sealable(r.Session, m.born); !ok {
		return answer, nil // it ends with the process
	}
	if err := k.ids.change(ctx, placeOf(r.Session.Principal(), r.Session.ID(), m.born.Unix()), change); err != nil {
		return nil, unavailable(err)
	}
	return answer, nil
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
		again("logging/setLevel", "level", m.kept.Level)
	}
	for _, uri := range m.kept.Resources {
		again("resources/subscribe", "uri", uri)
	}
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
