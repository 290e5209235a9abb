package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// A router can expose a server directly, past the meta-tools. The controls apply there as well:
// otherwise a client could bypass the policy with another URL.
//
//	/mcp               tool_execute ─▶ … ▶ controls ▶ … ─▶ server
//	/mcps/NAME/mcp     any method   ─▶ Judge: find the subject ▶ controls ─▶ server

// Place is the server that a direct call reaches.
type Place struct {
	Upstream  string // its configured name
	Namespace string // the namespace of its entries
	// Prefix is the prefix of its tools' names if they are listed with the tools of other servers.
	Prefix string
	// Renamed means that tools may have other names there than in the catalog. A name that the
	// catalog lacks is then judged only by its place.
	Renamed bool
}

// DirectCalls applies the controls to calls that bypass the meta-tools. It is safe for concurrent
// use.
type DirectCalls struct {
	whole    func(ctx context.Context) *Snapshot // all that may exist for the caller of a request
	wholeNow func(ctx context.Context) *Snapshot // the same, by the newest gateway
	await    func(ctx context.Context, places []Place)
	state    *State
	ctl      *dispatch.Controls
	accounts *accounts
}

// Judges reports whether any control could refuse a direct call at the places. If it returns false,
// Judge admits every such call unchanged and need not be called. Judges is fast.
func (d *DirectCalls) Judges(places []Place) bool {
	return slices.ContainsFunc(places, func(p Place) bool { return d.ctl.Concern(catalog.MapNamespace(p.Namespace)) })
}

// HasControls reports whether any control is configured for which Judges could return true.
func (d *DirectCalls) HasControls() bool { return d.ctl.OfUpstreams() }

// Methods of direct calls.
const (
	methodCall      = "tools/call"
	methodSubscribe = "resources/subscribe"
	methodListen    = "subscriptions/listen"
	tasksPrefix     = "tasks/"
)

// freeMethods neither run nor read anything of an upstream, or are checked elsewhere. They let an
// agent under `default: deny` see what it may ask for.
var freeMethods = []string{
	"initialize", "ping", "server/discover", "logging/setLevel", "resources/unsubscribe",
	"tools/list", "resources/list", "resources/templates/list", "prompts/list",
	"tasks/list", // the router lists only tasks that Refuses permits
	"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed",
}

// Judge decides about a direct call of any method before it is made. It returns the params to send,
// in weir's own encoding, or an *mcp.Error for the agent. It applies the decision of the
// corresponding meta-tool: the pin, the policy and the quota of the tool. With require_approval it
// asks the person through r.Peer.
//
// Judge refuses a message that two readers could read differently. A request about a task is judged
// as a call of the task's tool, which the router passes in taskTool if it is known, and is not
// counted again. An unknown method is judged like an unlisted tool of that name. For
// subscriptions/listen, the returned params contain only the resources that may be read.
//
// If a server exposes the tools of several servers as its own, places names all of them and the
// strictest verdict counts. A tool outside the catalog is judged by its name and place: rules that
// deny or ask match it even if their tags, hints or versions do not.
//
// Quotas count per session of mcp.Caller(ctx), or of r if there is none. Judge is safe for
// concurrent use.
func (d *DirectCalls) Judge(ctx context.Context, places []Place, r *mcp.Request, taskTool string) (json.RawMessage, error) {
	if len(places) == 0 || d.ctl.None() {
		return r.Params, nil
	}
	start := time.Now()
	d.await(ctx, places)
	to := target{snapshot: d.whole(ctx), places: places, taskTool: taskTool}
	a := dispatch.Act{Request: r, Verb: ToolExecute, Direct: true, Catalog: to.snapshot.Catalog}
	switch {
	case slices.Contains(freeMethods, r.Method):
		err := a.Rewrite()
		return a.Params, err
	case r.Method == methodListen:
		return listenable(&a, func(one *mcp.Request) error {
			_, err := d.Judge(ctx, places, one, "")
			return err
		})
	}
	if err := to.read(&a); err != nil {
		return nil, err
	}
	if d.ctl.Policy.Hides() && to.unknown(&a) {
		return nil, to.notThere(&a)
	}
	session := mcp.Caller(ctx)
	if session == nil {
		session = r.Session
	}
	st := d.state.direct(r, session)
	a.Ledger, a.Flow = st.ledger, st.flow
	a.Again = func(ctx context.Context) (*catalog.Catalog, []dispatch.Subject, bool) {
		now := target{snapshot: d.wholeNow(ctx), places: places, taskTool: taskTool}
		b := dispatch.Act{Request: r}
		err := now.read(&b)
		return now.snapshot.Catalog, b.About, err == nil
	}
	pass, err := d.ctl.Admit(ctx, &a)
	if err == nil {
		err = pass.Holds(ctx) // hooks may have taken their time
	}
	if err != nil {
		d.accounts.audit.outcome(ctx, &dispatch.Call{Verb: a.Verb, Method: r.Method, Request: r, Session: st, Entry: a.Of}, nil, err)
		if d.accounts.onEvent != nil {
			d.accounts.onEvent(d.accounts.event(&dispatch.Call{Verb: a.Verb, Request: r, Session: st, Entry: a.Of}, err, time.Since(start)))
		}
		if d.ctl.Policy.Hides() && !d.ctl.Policy.SightOf(identity.From(ctx), "").Sees(a.Verb, a.About) {
			return nil, to.notThere(&a)
		}
		return nil, asProtocol(err)
	}
	d.ctl.Reads(ctx, &a) // results there are not read: the session has the label before it gets one
	return a.Params, nil
}

// Refuses reports, without asking or counting, whether Judge certainly refuses a call of the caller of a request: of
// methodRead for a URI, or of methodCall for a tool. An empty name is a tool of which only the
// place is known. Use it to hide information about things that an agent may not read or run.
func (d *DirectCalls) Refuses(ctx context.Context, places []Place, method, name string) bool {
	if len(places) == 0 || d.ctl.None() {
		return false
	}
	to := target{snapshot: d.whole(ctx), places: places}
	if d.ctl.Pin.Check(to.snapshot.Catalog) != nil {
		return true
	}
	verb, about := ToolExecute, []dispatch.Subject(nil)
	if method == dispatch.MethodRead {
		verb, about = ResourceRead, to.snapshot.readable(places, name)
	} else {
		about = to.tool(name)
	}
	return d.ctl.Pin.CheckSeen(about) != nil || d.ctl.Refuses(ctx, verb, about)
}

// target is the subject of a direct call.
type target struct {
	snapshot *Snapshot
	places   []Place
	taskTool string

	name string // that the request names; "" if it names none
}

// read finds the subject of an act's request.
func (t *target) read(a *dispatch.Act) error {
	r, named := a.Request, true
	var name string
	var err error
	switch r.Method {
	case methodCall:
		if name, err = soleString(r.Params, "name"); err == nil {
			a.About, a.ArgsKey = t.snapshot.called(t.places, primitive.KindTool, name), "arguments"
		}
	case dispatch.MethodGet:
		if name, err = soleString(r.Params, "name"); err == nil {
			a.Verb, a.About, a.ArgsKey = PromptGet, t.snapshot.called(t.places, primitive.KindPrompt, name), "arguments"
		}
	case dispatch.MethodRead, methodSubscribe:
		if name, err = soleString(r.Params, "uri"); err == nil {
			a.Verb, a.About, a.ArgsKey = ResourceRead, t.snapshot.readable(t.places, name), "uri"
		}
	case methodComplete:
		name, err = t.completed(a)
	default:
		named = false
		t.other(a)
	}
	switch {
	case err != nil:
		return mcp.Errorf(mcp.KindInvalidParams, "%s: %v", r.Method, err)
	case named:
		t.name = name
		a.What = fmt.Sprintf("%s of %q", r.Method, text.Fit(name, dispatch.ShownName))
	}
	return nil
}

// completed finds the subject of completion/complete: the prompt, resource or template in its ref.
func (t *target) completed(a *dispatch.Act) (name string, err error) {
	ref, err := rawjson.Sole(a.Request.Params, "ref")
	if err != nil {
		return "", err
	}
	kind, err := soleString(ref, "type")
	switch {
	case err != nil:
		return "", fmt.Errorf("ref: %w", err)
	case kind == "ref/prompt":
		if name, err = soleString(ref, "name"); err == nil {
			a.Verb, a.About = PromptGet, t.snapshot.called(t.places, primitive.KindPrompt, name)
		}
	case kind == "ref/resource":
		if name, err = soleString(ref, "uri"); err == nil {
			a.Verb, a.About = ResourceRead, t.snapshot.completable(t.places, name)
		}
	default:
		return "", fmt.Errorf("ref.type must be ref/prompt or ref/resource")
	}
	if err != nil {
		return "", fmt.Errorf("ref: %w", err)
	}
	return name, nil
}

// other finds the subject of requests about tasks, and of unknown methods.
func (t *target) other(a *dispatch.Act) {
	method := a.Request.Method
	a.What = text.Line(method, dispatch.ShownName)
	if !strings.HasPrefix(method, tasksPrefix) {
		for _, p := range t.places {
			a.About = append(a.About, p.unlisted(primitive.KindTool, method))
		}
		return
	}
	a.About, a.Free = t.tool(t.taskTool), t.taskTool != ""
	if a.Free {
		a.What += fmt.Sprintf(" of a task of %q", text.Fit(t.taskTool, dispatch.ShownName))
	}
}

// tool returns the entries that a tool name may denote; "" denotes a tool of which only the place
// is known.
func (t *target) tool(name string) []dispatch.Subject {
	if name != "" {
		return t.snapshot.called(t.places, primitive.KindTool, name)
	}
	list := make([]dispatch.Subject, 0, len(t.places))
	for _, p := range t.places {
		p.Renamed = true
		list = append(list, p.unlisted(primitive.KindTool, ""))
	}
	return list
}

// listenable returns the params of subscriptions/listen with only the resources that may be read.
func listenable(a *dispatch.Act, judge func(*mcp.Request) error) (json.RawMessage, error) {
	if err := a.Rewrite(); err != nil {
		return nil, err
	}
	wanted := rawjson.Get(a.Params, "notifications")
	if err := rawjson.CheckCase(wanted, "resourceSubscriptions"); len(wanted) > 0 && err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: notifications: %v", methodListen, err)
	}
	uris := rawjson.Get(wanted, "resourceSubscriptions")
	if uris == nil {
		return a.Params, nil
	}
	out, seen := []byte{'['}, 0
	err := rawjson.EachElement(uris, func(v []byte) bool {
		one := *a.Request
		one.Method, one.Params = methodSubscribe, rawjson.Object("uri", v)
		if judge(&one) == nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, v...)
		}
		seen++
		return seen <= bridge.MaxResources
	})
	if err == nil && seen > bridge.MaxResources {
		err = fmt.Errorf("more than %d resources, which is the bound", bridge.MaxResources)
	}
	var params json.RawMessage
	if err == nil {
		params, err = rawjson.SetPath(a.Params, append(out, ']'), "notifications", "resourceSubscriptions")
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: resourceSubscriptions: %v", methodListen, err)
	}
	return params, nil
}

// direct returns the state of a router session, on whose behalf r is: its quotas for direct calls.
// Such a session is not in the list of gateway sessions.
func (s *State) direct(r *mcp.Request, of *mcp.Session) *sessionState {
	st := of.Value(directKey{s}, func() any {
		return newSessionState(of)
	}).(*sessionState)
	st.once.Do(func() { s.count(&mcp.Request{Version: r.Version, Session: of}, st) })
	return st
}

type directKey struct{ of *State }

// soleString returns a string member of params. It is an error if another member could be read in
// its place.
func soleString(params []byte, key string) (value string, err error) {
	raw, err := rawjson.Sole(params, key)
	switch {
	case err != nil:
		return "", fmt.Errorf("params cannot be read: %w", err)
	case raw == nil:
		return "", fmt.Errorf("params need %q", key)
	}
	if value, err = rawjson.String(raw); err != nil {
		return "", fmt.Errorf("%q must be a string", key)
	}
	return value, nil
}
