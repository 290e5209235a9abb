package upstream

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
)

// connections are the connections of one server: the shared one, and those of sessions and principals. They know
// over which of them a call goes. All methods are safe for concurrent use.
//
//	a call ─▶ keyOf: whose is it ─▶ home of its task, or slot of the key ─▶ slot, which makes and keeps the connection
//	         the bound is reached ─▶ evict: the slot that is unused for longest
type connections struct {
	srv    *server
	lists  *lists
	subs   *subscription.Registry
	shared *slot
	aside  *subscription.Line // of principals without a connection; it never has one
	homes  taskHomes
	grants grants

	after    <-chan struct{} // closed when the first start may start; nil: at once
	ctx      context.Context // ends with close
	cancel   context.CancelFunc
	wg       sync.WaitGroup // slots and background messages to servers; Add under mu
	restarts atomic.Int64   // after the loss of a connection

	// Lock order: a lock of subscription that is held during calls, members.mu, mu, admission.mu, all others.
	mu     sync.Mutex // guards below
	closed bool
	moved  bool              // the server is at another node: no new connections
	byKey  map[slotKey]*slot // in addition to shared
}

func (c *connections) init(srv *server, lists *lists, after <-chan struct{}) {
	c.srv, c.lists, c.after, c.byKey = srv, lists, after, map[slotKey]*slot{}
	c.subs = subscription.NewRegistry(c, srv.who, srv.log)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.aside = c.subs.NewLine(subscription.LineOptions{Current: func() subscription.Conn { return nil }})
	c.shared = newSlot(c, slotKey{})
}

// close ends all connections and waits for them. It returns false, at once, if it was called before.
func (c *connections) close() (first bool) {
	c.mu.Lock()
	first = !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.subs.Close()
		c.cancel()
		c.wg.Wait()
	}
	return first
}

// spawn runs f in a goroutine that close waits for. After close it does nothing and returns false.
func (c *connections) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(f)
	}
	return !c.closed
}

// move makes calls that have no connection yet get errMoved. Calls that have a connection go on.
func (c *connections) move() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = true
	c.shared.calls.move()
	for _, s := range c.byKey {
		s.calls.move()
	}
}

// pick returns the slot for a call of the caller of ctx, in an era. If the call is about a task of the
// caller's principal, pick returns the slot that made the task while that slot exists.
func (c *connections) pick(ctx context.Context, modern bool, task string) (*slot, error) {
	session := mcp.Caller(ctx)
	key, err := c.keyOf(ctx)
	if err != nil {
		return nil, err
	}
	if modern && c.srv.http() && !c.srv.noModern.Load() {
		key.modern = !c.srv.lastHello().Modern // one connection is enough if all are modern
	}
	if task != "" && session != nil {
		if home := c.homes.of(session.Principal(), task, key); home != nil {
			return home, nil
		}
	}
	if key == (slotKey{}) || c.srv.leftOut.Load() {
		return c.shared, nil
	}
	return c.slot(key)
}

// keyOf returns the key of the slot for the caller of ctx. The error says that a server with a
// credential for each principal was called without one.
func (c *connections) keyOf(ctx context.Context) (slotKey, error) {
	key, session, srv := slotKey{}, mcp.Caller(ctx), c.srv
	if srv.cfg.PerPrincipal() {
		if session == nil || session.Principal() == "" {
			return key, mcp.Errorf(mcp.KindUnauthorized, "%s has a credential for each principal (credentials: %s), and this call has no principal", srv.who, srv.cfg.Credentials)
		}
		key.principal = session.Principal()
	}
	if srv.cfg.FromCaller() {
		if srv.opts.Credentials == nil {
			return key, mcp.Errorf(mcp.KindUnauthorized, "%s takes the credential from the token of the caller, which is not kept here", srv.who)
		}
		if err := srv.opts.Credentials.Shown(ctx, srv.name); err != nil {
			return key, err
		}
		if id := identity.From(ctx); id.Principal == key.principal {
			key.grant = strings.Clone(id.Grant())
		}
		if session != nil {
			c.grants.note(session, key.grant)
		}
	}
	switch {
	case ofPrincipal(srv, session):
		key.principal = session.Principal()
	case session != nil && srv.ownFor(session):
		key.session = session
	}
	return key, nil
}

// slot returns a slot other than the shared one and makes it if necessary.
func (c *connections) slot(key slotKey) (*slot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byKey[key]; s != nil {
		return s, nil
	}
	if c.moved {
		return nil, errMoved
	}
	if c.closed {
		return nil, c.srv.stopped()
	}
	if most := c.maxSlots(); key.own() && len(c.byKey) >= most {
		if err := c.srv.credentialOf(key.principal); err != nil {
			return nil, err
		}
		if !c.evict(key.principal) {
			return nil, mcp.Errorf(mcp.KindOverloaded, "%s has a connection of its own for each of %d sessions or principals, which is the bound; end a session", c.srv.who, most)
		}
	}
	s := newSlot(c, key)
	c.byKey[key] = s
	c.wg.Go(s.run)
	return s, nil
}

// forPrincipal returns a slot of a principal whose tokens have a grant, and makes one if there is none.
func (c *connections) forPrincipal(principal, grant string) (*slot, error) {
	plain := slotKey{principal: principal, grant: grant}
	c.mu.Lock()
	if s := c.byKey[plain]; s != nil && s.ctx.Err() == nil {
		c.mu.Unlock()
		return s, nil
	}
	for k, s := range c.byKey {
		if k.principal == principal && k.grant == grant && !k.modern && s.ctx.Err() == nil {
			c.mu.Unlock()
			return s, nil
		}
	}
	c.mu.Unlock()
	return c.slot(plain)
}

// maxSlots returns how many sessions and principals may have a connection of their own. A connection to a URL
// costs less than a process.
func (c *connections) maxSlots() int {
	if c.srv.program() || c.srv.opts.open != nil {
		return maxSessionSlots
	}
	return maxSessionLinks
}

// evict ends the slot of a session or a principal that has been unused for longest, and reports
// whether there was one without calls. It prefers slots of the principal that needs another one. The
// caller holds mu.
func (c *connections) evict(principal string) bool {
	for {
		oldest := c.unusedLongest(principal)
		if oldest == nil {
			return false
		}
		if !oldest.calls.endQuiet() {
			continue // a call has just got the connection, or waits for it
		}
		delete(c.byKey, oldest.key)
		oldest.cancel()
		return true
	}
}

// unusedLongest returns the slot that evict ends, nil if all have calls. The caller holds mu.
func (c *connections) unusedLongest(principal string) (oldest *slot) {
	var since time.Time
	var ofPrincipal bool // whether oldest is
	for key, s := range c.byKey {
		if !key.own() {
			continue
		}
		used, quiet := s.calls.quiet()
		of := principal != "" && key.principal == principal
		switch {
		case !quiet:
		case oldest == nil, of && !ofPrincipal, of == ofPrincipal && used.Before(since):
			oldest, since, ofPrincipal = s, used, of
		}
	}
	return oldest
}

// forget removes an ended slot from the table, and its tasks.
func (c *connections) forget(s *slot) {
	c.homes.forget(s)
	c.drop(s)
}

// drop removes an ended slot from the table, so that the next call of its key gets a new one. The
// slot itself may still be closing its connection.
func (c *connections) drop(s *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[s.key] == s {
		delete(c.byKey, s.key)
	}
}

// report adds the numbers of sessions and principals with a connection of their own.
func (c *connections) report(st *Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	principals := map[string]bool{}
	for key := range c.byKey {
		if key.session != nil {
			st.Sessions++
		}
		if key.principal != "" {
			principals[key.principal] = true
		}
	}
	st.Principals = len(principals)
}

// isReady reports whether calls can use a connection of a principal of which of returns true. of gets "" for a
// connection of a session.
func (c *connections) isReady(of func(principal string) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, s := range c.byKey {
		if now, _ := s.calls.now(); now == StateReady && of(key.principal) {
			return true
		}
	}
	return false
}

var _ subscription.Server = (*connections)(nil)

// Line implements subscription.Server.
func (c *connections) Line(session *mcp.Session) *subscription.Line {
	key := slotKey{}
	if session != nil && (c.srv.cfg.PerPrincipal() || ofPrincipal(c.srv, session)) {
		key.principal = session.Principal()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if session != nil && c.srv.cfg.FromCaller() {
		known := false
		if key.grant, known = c.grants.of(session); !known {
			return c.aside
		}
	}
	if own := c.byKey[slotKey{principal: key.principal, grant: key.grant, session: session}]; session != nil && own != nil {
		return own.line
	}
	switch own := c.byKey[key]; {
	case own != nil:
		return own.line
	case session == nil || !c.srv.cfg.PerPrincipal():
		return c.shared.line
	}
	return c.aside
}

// ListChanged implements subscription.Server. It makes the lists be read again, over the shared
// connection, and over the session's own that sent the notification. The shared connection ignores a
// notification of a session's own in its first second, because many servers send one to each new
// client. At a server that lists for each principal, only the listing of the principal of the
// connection is fetched again.
func (c *connections) ListChanged(from *subscription.Line) {
	own := c.slotOf(from)
	if c.lists.perCaller() {
		if own != nil && own.key.principal != "" {
			c.lists.own.changed(memberKey{own.key.principal, own.key.grant}, false)
		}
		return
	}
	if from == c.shared.line {
		c.shared.refresh()
		return
	}
	if own == nil {
		return
	}
	if own.adds() {
		own.refresh()
	}
	if state, since := own.calls.now(); state == StateReady && time.Since(since) >= time.Second {
		c.shared.listAgain()
	}
}

// slotOf returns the slot of a Line, nil if it is gone or the shared one.
func (c *connections) slotOf(line *subscription.Line) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, slot := range c.byKey {
		if slot.line == line {
			return slot
		}
	}
	return nil
}

// OperatorLog implements subscription.Server.
func (c *connections) OperatorLog(params json.RawMessage) {
	operatorLog(c.srv.log, c.srv.opts.Redact, params)
}

// Go implements subscription.Server.
func (c *connections) Go(f func(context.Context)) { c.spawn(func() { f(c.ctx) }) }

// Stopped implements subscription.Server.
func (c *connections) Stopped() error { return c.srv.stopped() }

// grants are the grants of the last calls of sessions at one server. Each session keeps its own.
type grants struct{ _ byte } // a size, so that each has an address of its own

// grantKey is where a session keeps its grant.
type grantKey struct{ of *grants }

// note keeps the grant of a session's call.
func (g *grants) note(session *mcp.Session, grant string) {
	last := session.Value(grantKey{g}, func() any { return new(atomic.Pointer[string]) }).(*atomic.Pointer[string])
	if was := last.Load(); was == nil || *was != grant {
		last.Store(&grant)
	}
}

// of returns the grant of a session's last call. known is false before the first one. Another
// client of the principal has another connection, and the notifications of that one are not for this session.
func (g *grants) of(session *mcp.Session) (grant string, known bool) {
	last, _ := session.Value(grantKey{g}, nil).(*atomic.Pointer[string])
	if last == nil || last.Load() == nil {
		return "", false
	}
	return *last.Load(), true
}
