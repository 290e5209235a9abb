package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
)

// Subscribe calls fn for each notification that belongs to no call and is not an update of a
// resource: changed lists, the state of tasks, and additions of later versions. They come from the
// connection for calls of the session mcp.Caller(ctx). On a shared connection the session gets
// those that concern its principal. For each connection, fn is called in order, for one
// notification at a time. fn must not block, and must clone the params that it keeps. It may be
// called once more while stop runs.
func (u *Upstream) Subscribe(ctx context.Context, fn func(method string, params json.RawMessage)) (stop func()) {
	return u.subs.Subscribe(mcp.Caller(ctx), fn)
}

// SubscribeResource calls fn for each update of a resource, over the connection for calls of the
// session mcp.Caller(ctx). It subscribes at the server for the first subscription to a resource,
// and unsubscribes after the last was stopped. After a lost connection it subscribes again. fn is
// as with Subscribe. stop does not wait. It returns the errors of a call.
func (u *Upstream) SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error) {
	w := &watch{session: mcp.Caller(ctx), uri: uri, fn: fn}
	err = w.begin(ctx, u)
	for at := u; errors.Is(err, errMoved); {
		at = at.next.Load()
		err = w.begin(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	return w.stop, nil
}

// SetLogLevel sets the log level of the session mcp.Caller(ctx), until the session ends; ""
// disables messages. Sessions that share a connection get the most verbose level of all of them:
// the caller filters the messages for its session. A server that is down or idle gets the level
// when it is back, a modern one with each call. It returns the error of the server.
func (u *Upstream) SetLogLevel(ctx context.Context, level string) error {
	return u.subs.SetLogLevel(ctx, mcp.Caller(ctx), level)
}

// listeningServer implements subscription.Server for an Upstream.
type listeningServer struct{ u *Upstream }

var _ subscription.Server = listeningServer{}

// Line implements subscription.Server.
func (s listeningServer) Line(session *mcp.Session) *subscription.Line {
	u := s.u
	key := slotKey{}
	if session != nil && (u.cfg.PerPrincipal() || ofPrincipal(&u.server, session)) {
		key.principal = session.Principal()
	}
	u.slotsMu.Lock()
	defer u.slotsMu.Unlock()
	if session != nil && u.cfg.FromCaller() {
		known := false
		if key.grant, known = u.grantOf(session); !known {
			return u.aside
		}
	}
	if own := u.slots[slotKey{principal: key.principal, grant: key.grant, session: session}]; session != nil && own != nil {
		return own.line
	}
	switch own := u.slots[key]; {
	case own != nil:
		return own.line
	case session == nil || !u.cfg.PerPrincipal():
		return u.shared.line
	}
	return u.aside
}

// grantKey is where a session keeps the grant of its last call at an upstream.
type grantKey struct{ u *Upstream }

// noteGrant keeps the grant of a session's call.
func (u *Upstream) noteGrant(session *mcp.Session, grant string) {
	last := session.Value(grantKey{u}, func() any { return new(atomic.Pointer[string]) }).(*atomic.Pointer[string])
	if was := last.Load(); was == nil || *was != grant {
		last.Store(&grant)
	}
}

// grantOf returns the grant of a session's last call here. known is false before the first one. Another
// client of the principal has another connection, and what that one says is not for this session.
func (u *Upstream) grantOf(session *mcp.Session) (grant string, known bool) {
	last, _ := session.Value(grantKey{u}, nil).(*atomic.Pointer[string])
	if last == nil || last.Load() == nil {
		return "", false
	}
	return *last.Load(), true
}

// ListChanged implements subscription.Server. It makes the lists be read again, over the shared
// connection, and over the session's own that sent the notification. The shared connection ignores a
// notification of a session's own in its first second, because many servers send one to each new
// client. At a server that lists for each principal, only the listing of the principal of the
// connection is fetched again.
func (s listeningServer) ListChanged(from *subscription.Line) {
	if s.u.lists.perCaller() {
		if key, ok := s.keyOf(from); ok {
			s.u.lists.own.changed(memberKey{key.principal, key.grant}, false)
		}
		return
	}
	shared := s.u.shared
	if from == shared.line {
		shared.refresh()
		return
	}
	if own := s.slotOf(from); own != nil && own.adds() {
		own.refresh()
	}
	if !s.u.isYoung(from) {
		shared.listAgain()
	}
}

// slotOf returns the slot of a Line, nil if it is gone.
func (s listeningServer) slotOf(line *subscription.Line) *slot {
	s.u.slotsMu.Lock()
	defer s.u.slotsMu.Unlock()
	for _, slot := range s.u.slots {
		if slot.line == line {
			return slot
		}
	}
	return nil
}

// keyOf returns the key of a Line of a principal.
func (s listeningServer) keyOf(line *subscription.Line) (key slotKey, ok bool) {
	s.u.slotsMu.Lock()
	defer s.u.slotsMu.Unlock()
	for key, slot := range s.u.slots {
		if slot.line == line {
			return key, key.principal != ""
		}
	}
	return slotKey{}, false
}

// isYoung reports whether the connection of a Line was made less than a second ago, or is gone.
func (u *Upstream) isYoung(line *subscription.Line) bool {
	u.slotsMu.Lock()
	defer u.slotsMu.Unlock()
	for _, s := range u.slots {
		if s.line == line {
			state, since := s.calls.now()
			return state != StateReady || time.Since(since) < time.Second
		}
	}
	return true
}

// OperatorLog implements subscription.Server.
func (s listeningServer) OperatorLog(params json.RawMessage) { s.u.operatorLog(params) }

// Go implements subscription.Server.
func (s listeningServer) Go(f func(context.Context)) { s.u.spawn(func() { f(s.u.ctx) }) }

// Stopped implements subscription.Server.
func (s listeningServer) Stopped() error { return s.u.stopped() }
