package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Bounds of one upstream.
const (
	maxInFlight     = 2048 // calls; more than the queue of an agent server, whose own refusal says more
	maxSessionSlots = 64   // sessions with a process of their own
	maxSessionLinks = 1024 // sessions with a connection of their own to a server that weir does not run
)

// Upstream calls one MCP server. It is a Peer that exists whether or not the server
// runs. All methods are safe for concurrent use.
//
// A call is made on behalf of the session mcp.Caller(ctx). If the server keeps state for each
// client (per_session), that session has its own connection; otherwise all share one. In addition
// to the errors of the connection a call returns *mcp.Error of KindUpstreamStarting,
// KindUpstreamUnavailable, KindUpstreamTimeout and KindOverloaded.
type Upstream struct {
	server
	lists lists
	conns connections

	legacy, modern eraPeer
	ended          chan struct{} // closed when close has returned

	calls, failures, inFlight atomic.Int64
	work                      busy // calls, and requests with a Hold

	next    atomic.Pointer[Upstream] // has the place of this one in the cluster; see moveTo
	watches watches
}

var _ mcp.Peer = (*Upstream)(nil)

// place is the position of an upstream among others.
type place struct {
	order int  // in the configuration
	found bool // the server is not configured; see primitive.Listing
}

func newUpstream(o Options, cfg *mcpserver.Server, at place, after <-chan struct{}, open Open) *Upstream {
	u := &Upstream{ended: make(chan struct{}), work: newBusy()}
	u.server.init(o, cfg, open)
	u.lists.init(&u.server, at)
	u.conns.init(&u.server, &u.lists, after)
	u.lists.refresh = u.conns.shared.refresh
	if cfg.ListsPerCaller() {
		u.lists.own = newMembers(&u.conns)
	}
	u.legacy, u.modern = eraPeer{u, false}, eraPeer{u, true}
	u.conns.wg.Go(u.conns.shared.run)
	return u
}

// close ends all connections and waits for them.
func (u *Upstream) close() {
	if !u.conns.close() {
		<-u.ended
		return
	}
	u.lists.settle()
	close(u.ended)
}

// Hold starts the upstream if it is idle, waits until it is ready and prevents it from being
// stopped for idleness until release is called. Call release with an error if the server has become
// unusable: the next Hold waits for a new start. For an HTTP server that weir does not start, Hold
// returns at once, because there is nothing to wait for. A reload waits for the release as for a
// call, unless stream is set: a stream lasts as long as the client wants.
func (u *Upstream) Hold(ctx context.Context, stream bool) (release func(lost error), err error) {
	if !u.program() {
		return func(error) {}, nil
	}
	l, err := u.conns.shared.calls.acquire(ctx)
	if errors.Is(err, errMoved) {
		return u.next.Load().Hold(ctx, stream)
	}
	if err != nil {
		return nil, u.public(err)
	}
	if !stream {
		u.work.enter()
	}
	var once sync.Once
	return func(lost error) {
		once.Do(func() {
			if !stream {
				u.work.leave()
			}
			u.conns.shared.calls.release(l)
			if lost != nil {
				u.conns.shared.calls.lose(l, lost)
			}
		})
	}, nil
}

// Ready waits until the upstream can be called and returns the server's Hello. It does not wake an
// idle upstream (calls do), except one that serves a URL, because requests to the URL bypass the
// upstream.
func (u *Upstream) Ready(ctx context.Context) (mcp.Hello, error) {
	switch {
	case !u.cfg.PerPrincipal():
	case mcp.Caller(ctx) == nil:
		return u.lastHello(), nil // only the caller's own connection matters
	default:
		return u.Hello(ctx, false)
	}
	if !u.program() || u.cfg.URL == "" {
		state, _ := u.conns.shared.calls.now()
		hello := u.lastHello()
		if state == StateIdle && hello.Version != "" {
			return hello, nil
		}
	}
	l, err := u.conns.shared.calls.acquire(ctx)
	if errors.Is(err, errMoved) {
		return u.next.Load().Ready(ctx)
	}
	if err != nil {
		return mcp.Hello{}, u.public(err)
	}
	defer u.conns.shared.calls.release(l)
	return l.hello, nil
}

// public converts an internal error of this package into one for callers.
func (srv *server) public(err error) error {
	if errors.Is(err, errSlotEnded) {
		return srv.stopped()
	}
	return err
}

// Hello is Ready for one era. An HTTP server that speaks both eras is greeted in that era as well.
// If the session has a connection of its own, Hello uses it. The returned Hello shows whether the
// server speaks the era.
func (u *Upstream) Hello(ctx context.Context, modern bool) (mcp.Hello, error) {
	var hello mcp.Hello
	err := u.with(ctx, modern, func(l *link) error {
		hello = l.hello
		return nil
	})
	if errors.Is(err, errMoved) {
		return u.next.Load().Hello(ctx, modern)
	}
	return hello, err
}

// TasksAt returns the URL of the server, which has the same tasks for as long as it has that URL. It
// is empty for a program, whose tasks end with weir, and the same text at all nodes for a server with
// scope: cluster. shared says that all principals have one connection to the server.
func (u *Upstream) TasksAt() (url string, shared bool) {
	switch {
	case u.cfg.Scope == mcpserver.ScopeCluster:
		url = "cluster:" + u.name
	case u.endpoint != nil && !u.program():
		url = u.endpoint.String()
	}
	return url, !u.cfg.PerPrincipal() && !u.cfg.FromCaller() && !u.cfg.PerSession && (u.cfg.Scope == mcpserver.ScopeCluster || !u.asksRoots.Load())
}

// Era returns the upstream as a Peer that prefers one era. The preference matters for HTTP servers
// that speak both; others have one connection, in the era that the handshake found. The Upstream
// itself prefers the era of a call's params.
func (u *Upstream) Era(modern bool) mcp.Peer {
	if modern {
		return &u.modern
	}
	return &u.legacy
}

type eraPeer struct {
	u      *Upstream
	modern bool
}

// Call implements mcp.Peer.
func (p *eraPeer) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	return p.u.call(ctx, p.modern, method, params, back)
}

// Notify implements mcp.Peer.
func (p *eraPeer) Notify(ctx context.Context, method string, params json.RawMessage) error {
	return p.u.notify(ctx, p.modern, method, params)
}

// Call implements mcp.Peer.
func (u *Upstream) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	return u.call(ctx, u.http() && saysModern(params), method, params, back)
}

// Notify implements mcp.Peer.
func (u *Upstream) Notify(ctx context.Context, method string, params json.RawMessage) error {
	return u.notify(ctx, u.http() && saysModern(params), method, params)
}

func (u *Upstream) call(ctx context.Context, modern bool, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	for {
		result, err := u.callHere(ctx, modern, method, params, back)
		if !errors.Is(err, errMoved) {
			return result, err
		}
		u = u.next.Load()
	}
}

func (u *Upstream) callHere(ctx context.Context, modern bool, method string, params json.RawMessage, back mcp.Handler) (result json.RawMessage, err error) {
	if err := u.lists.callable(u.lists.rulesOf(ctx), method, params); err != nil {
		return nil, err
	}
	if states := u.opts.States; states != nil && u.program() {
		if params, err = states.In(params); err != nil {
			return nil, err
		}
		defer func() { result = states.Out(result) }()
	}
	if method != "subscriptions/listen" { // the caller bounds a subscription
		if u.inFlight.Add(1) > maxInFlight {
			u.inFlight.Add(-1)
			return nil, mcp.Errorf(mcp.KindOverloaded, "%s has %d calls in flight; wait for some to finish", u.who, maxInFlight)
		}
		defer u.inFlight.Add(-1)
		u.work.enter()
		defer u.work.leave()
		if o := u.opts.Observer; o != nil {
			began := time.Now()
			o.RequestStarted(u.name)
			defer func() { o.RequestEnded(u.name, time.Since(began)) }()
		}
	}
	if trace.Lasts(method) {
		return u.ask(ctx, modern, method, params, back)
	}
	followed, params := u.opts.Trace.Begin(ctx, &u.traced, method, params)
	result, err = u.ask(ctx, modern, method, params, back)
	followed.End(result, err)
	return result, err
}

// ask sends a call that may be made, and returns its result.
func (u *Upstream) ask(ctx context.Context, modern bool, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	u.calls.Add(1)
	var result json.RawMessage
	var err error
	signIn := u.lists.isSignIn(ctx, method, params)
	t := turn{u: u, modern: modern, task: taskOf(method, params)}
	for again := true; again; {
		var l *link
		if l, err = t.next(ctx); err != nil {
			break
		}
		sent := u.lists.rulesOf(ctx)
		if signIn {
			result, err = u.lists.signedIn(ctx)
		} else {
			result, err = l.Call(ctx, u.timeoutOf(method), method, params, back)
		}
		if !signIn && refusedHeaders(l, method, err) && u.lists.relearn(ctx, l, params, sent) {
			if err = u.lists.callable(u.lists.rulesOf(ctx), method, params); err == nil {
				result, err = l.Call(ctx, u.timeoutOf(method), method, params, back)
			}
		}
		if !signIn && err == nil {
			u.conns.homes.learn(mcp.Caller(ctx), method, result, l.slot)
		}
		again = t.again(ctx, l, err)
	}
	if err == nil && method == "tools/call" {
		result = mcp.WithContent(result)
	}
	if err == nil {
		return result, nil
	}
	if u.lists.perCaller() && needsSignIn(err) && !signIn {
		u.lists.own.changed(u.lists.own.keyOf(ctx), true) // the credential may serve for the lists still
	}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return nil, err
	}
	if ctx.Err() == nil && !errors.Is(err, errMoved) {
		u.failures.Add(1)
	}
	switch k, _ := mcp.KindOf(err); k {
	case mcp.KindUnauthorized, mcp.KindPermissionDenied:
		u.opts.Failed(u.name)
	case mcp.KindSessionNotFound:
		// The lost session is weir's own; the agent's session still exists.
		err = &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: err.Error(), Err: err}
	}
	return nil, err
}

// timeoutOf returns how long a call may take; 0 sets no limit.
func (u *Upstream) timeoutOf(method string) time.Duration {
	if method == "subscriptions/listen" {
		return 0 // a subscription lasts as long as its caller wants
	}
	return u.cfg.Timeout
}

func (u *Upstream) notify(ctx context.Context, modern bool, method string, params json.RawMessage) error {
	err := u.with(ctx, modern, func(l *link) error {
		if method == "notifications/roots/list_changed" && l.slot.key.session == nil {
			return nil // a shared connection has no roots
		}
		return l.notify(ctx, method, params)
	})
	if errors.Is(err, errMoved) {
		return u.next.Load().notify(ctx, modern, method, params)
	}
	return err
}

// with runs f over a connection that is ready, as a turn does.
func (u *Upstream) with(ctx context.Context, modern bool, f func(*link) error) error {
	t := turn{u: u, modern: modern}
	for {
		l, err := t.next(ctx)
		if err != nil {
			return err
		}
		if err = f(l); !t.again(ctx, l, err) {
			return err
		}
	}
}

// turn is one use of a connection that is ready: if it is about a task, of the one that made the task.
//
//	next ─▶ connection ─▶ message ─▶ again ─▶ no: the outcome counts
//	 ◀──────── once, if the message certainly never reached the server
type turn struct {
	u       *Upstream
	modern  bool
	task    string
	slot    *slot
	retried bool
}

// next waits for the connection. The caller must call again after its message.
func (t *turn) next(ctx context.Context) (*link, error) {
	for ended := 0; ; {
		s, err := t.u.conns.pick(ctx, t.modern, t.task)
		if err != nil {
			return nil, err
		}
		l, err := s.calls.acquire(ctx)
		switch {
		case err == nil:
			t.slot = s
			return l, nil
		case errors.Is(err, errNotModern):
			t.modern, t.task = false, ""
		case errors.Is(err, errSlotEnded) && ended < 3:
			ended++ // it was idle, or its session ends
			t.u.conns.drop(s)
			t.task = "" // the server may have the task although its connection has ended
		case errors.Is(err, errSlotEnded):
			return nil, t.u.public(err)
		default:
			return nil, err
		}
	}
}

// again releases the connection after a message with an outcome, and reports whether the message is to be
// sent again, over the connection that next returns.
func (t *turn) again(ctx context.Context, l *link, err error) bool {
	t.slot.calls.release(l)
	if err == nil || ctx.Err() != nil || !errors.Is(err, mcp.ErrNotSent) {
		return false
	}
	t.slot.calls.lose(l, err)
	first := !t.retried
	t.retried = true
	return first
}
