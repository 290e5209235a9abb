package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Principals share the connection to a server, which takes them for one client. A notification
// outside of a call goes only to the sessions that it concerns:
//
//	lists that changed                   all sessions
//	resources/updated                    the sessions that have subscribed to the resource
//	tasks/status, elicitation/complete   the principal that the task or the elicitation belongs to
//	log messages                         the operator
//	anything else                        the principal that alone uses the connection

const (
	methodTaskStatus    = "notifications/tasks/status"
	methodElicited      = "notifications/elicitation/complete"
	methodElicit        = "elicitation/create"
	codeElicitFirst     = -32042 // URLElicitationRequired
	maxOwned            = 4096   // tasks, and elicitations, whose principals are known
	maxOwnedID          = 512
	maxElicitationsOnce = 64
)

// owners records which principals use a shared connection, and which of them owns each task and
// elicitation. The zero value knows none. It is safe for concurrent use.
type owners struct {
	sole    atomic.Pointer[string] // the first principal that used the connection
	several atomic.Bool            // another principal has used it as well

	mu                  sync.Mutex // guards below
	tasks, elicitations owned
}

// owned maps ids to principals, and forgets the oldest at its bound.
type owned struct {
	of   map[string]string
	ring []string
	next int
}

// add records the principal of an id. The first principal keeps it.
func (o *owned) add(id, principal string) {
	if _, known := o.of[id]; known || id == "" || len(id) > maxOwnedID {
		return
	}
	id = strings.Clone(id)
	if o.of == nil {
		o.of = map[string]string{}
	}
	if len(o.ring) < maxOwned {
		o.ring = append(o.ring, id)
	} else {
		delete(o.of, o.ring[o.next])
		o.ring[o.next] = id
		o.next = (o.next + 1) % maxOwned
	}
	o.of[id] = principal
}

// uses records that a session uses the connection.
func (o *owners) uses(s *mcp.Session) {
	if s == nil || o.several.Load() {
		return
	}
	principal := s.Principal()
	first := o.sole.Load()
	if first == nil {
		if o.sole.CompareAndSwap(nil, &principal) {
			return
		}
		first = o.sole.Load()
	}
	if *first != principal {
		o.several.Store(true)
	}
}

// of returns the principal that a notification is for. known is false if the notification names no
// task or elicitation with an owner; then it is for the only principal that uses the connection. ok
// is false if it is for no principal.
func (o *owners) of(method string, params json.RawMessage) (principal string, known, ok bool) {
	switch method {
	case methodTaskStatus:
		principal, ok = o.lookup(&o.tasks, rawjson.Text(rawjson.Get(params, "taskId")))
		known = true
	case methodElicited:
		principal, ok = o.lookup(&o.elicitations, rawjson.Text(rawjson.Get(params, "elicitationId")))
		known = true
	}
	if ok {
		return principal, known, true
	}
	if first := o.sole.Load(); first != nil && !o.several.Load() {
		return *first, known, true
	}
	return "", known, false
}

func (o *owners) lookup(in *owned, id string) (principal string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	principal, ok = in.of[id]
	return principal, ok
}

// ownedBack is the back of a call over a shared Line. It records the elicitations that the caller
// gets. It hands notifications about another principal's task or elicitation to the Line: the
// server sees one client and may send them during any call.
type ownedBack struct {
	back      mcp.Handler
	line      *Line
	principal string
}

// Serve implements mcp.Handler.
func (b *ownedBack) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	o := &b.line.owners
	if r.Method == methodElicit {
		o.elicited(rawjson.Text(rawjson.Get(r.Params, "elicitationId")), b.principal)
	}
	if r.IsNotification() {
		if principal, known, ok := o.of(r.Method, r.Params); known && (!ok || principal != b.principal) {
			b.line.Notice(r.Method, r.Params)
			return nil, nil
		}
	}
	return b.back.Serve(ctx, r)
}

func (o *owners) elicited(id, principal string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.elicitations.add(id, principal)
}

// learn records the owner of the task in a call's result, and of the elicitations in its error.
func (o *owners) learn(principal string, result json.RawMessage, err error) {
	switch {
	case err != nil:
		o.refused(principal, err)
	case rawjson.Contains(result, "taskId"):
		made, _ := mcptask.Made(result)
		o.mu.Lock()
		o.tasks.add(made.ID, principal)
		o.mu.Unlock()
	case rawjson.Contains(result, "elicitationId") && rawjson.Text(rawjson.Get(result, "resultType")) == "input_required":
		n := 0
		_ = rawjson.EachMember(rawjson.Get(result, "inputRequests"), func(m rawjson.Member) bool {
			o.elicited(rawjson.Text(rawjson.GetPath(m.Value, "params", "elicitationId")), principal)
			n++
			return n < maxElicitationsOnce
		})
	}
}

// refused records the owner of the elicitations in a call's error.
func (o *owners) refused(principal string, err error) {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != codeElicitFirst {
		return
	}
	n := 0
	_ = rawjson.EachElement(rawjson.Get(wire.Data, "elicitations"), func(e []byte) bool {
		o.elicited(rawjson.Text(rawjson.Get(e, "elicitationId")), principal)
		n++
		return n < maxElicitationsOnce
	})
}

// Call is one call over a Line. Its zero value records nothing.
type Call struct {
	line      *Line
	principal string
}

// Own starts a call for a session, whose principal owns the tasks and elicitations that the server makes
// for it. It returns the back for the call; Call.End must be called with the outcome. The Line of a
// single session needs no such records.
func (l *Line) Own(session *mcp.Session, back mcp.Handler) (mcp.Handler, Call) {
	if l.session != nil || session == nil {
		return back, Call{}
	}
	l.owners.uses(session)
	c := Call{l, session.Principal()}
	if back != nil {
		back = &ownedBack{back, l, c.principal}
	}
	return back, c
}

// End records the owner of the tasks and elicitations that the server has made.
func (c Call) End(result json.RawMessage, err error) {
	if c.line != nil {
		c.line.owners.learn(c.principal, result, err)
	}
}

// Uses records that a session uses the Line.
func (l *Line) Uses(session *mcp.Session) {
	if l.session == nil {
		l.owners.uses(session)
	}
}

// concerns reports whether a session gets a notification that belongs to no call. A subscriber
// without a session gets all of them.
func (l *Line) concerns(session *mcp.Session, method string, params json.RawMessage) bool {
	switch {
	case session == nil, l.session != nil, isListChanged(method):
		return true
	case method == methodMessage:
		return false // it may be about another session of the Line
	}
	principal, _, ok := l.owners.of(method, params)
	return ok && principal == session.Principal()
}

// isListChanged reports whether a notification says that a list of the server has changed. Lists
// are the same for all principals.
func isListChanged(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		return true
	}
	return false
}
