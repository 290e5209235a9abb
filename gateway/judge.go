package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
	"github.com/weir-mcp/weir/telemetry"
)

// A server can be reached past the meta-tools, where a router shows it as it is.
// What an operator has said about calls holds there, too: a policy that a
// client gets around by another URL is none.
//
//	/mcp               tool_execute ─▶ … ▶ policy ▶ quota ▶ … ─▶ server
//	/mcps/NAME/mcp     tools/call   ─▶ Judge: pin ▶ policy ▶ quota of the tool ─▶ server

// Place is where a direct call leads.
type Place struct {
	Upstream  string // its configured name
	Namespace string // the namespace of its entries
	// Prefix is what the names of its tools may begin with there, if they are
	// shown together with those of others.
	Prefix string
	// Renamed says that they may have other names there than in the catalog: one
	// that is in none is judged by its place alone.
	Renamed bool
}

// Judges reports whether something is configured that could keep direct calls
// back at any of the places. Where it is false, Judge has nothing to say about
// them and need not be asked. It is fast and safe for concurrent use.
func (g *Gateway) Judges(places []Place) bool {
	if g.opts.Pin.Strict {
		return true
	}
	for i := range places {
		namespace := catalog.MapNamespace(places[i].Namespace)
		for id := range g.opts.RateLimits.Tools {
			if strings.HasPrefix(id, namespace+":") {
				return true
			}
		}
		if g.opts.Policy.concerns(namespace) {
			return true
		}
	}
	return false
}

// HasControls reports whether anything is configured for which Judges could be
// true at all.
func (g *Gateway) HasControls() bool {
	return g.opts.Pin.Strict || len(g.opts.RateLimits.Tools) > 0 || g.opts.Policy != nil
}

// concerns reports whether a policy may keep back what runs or reads something
// in a namespace.
func (p *Policy) concerns(namespace string) bool {
	if p == nil {
		return false
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Action != Allow && (r.Namespace == "" || r.Namespace == namespace) && (r.MetaTool == "" || actsOnUpstream(r.MetaTool)) {
			return true
		}
	}
	return p.Default != "" && p.Default != Allow
}

// directVerbs are the methods of direct calls that Judge decides about: the
// meta-tool that does the same, and the param that names what it is about.
var directVerbs = map[string]struct {
	metaTool string
	kind     catalog.Kind
	param    string
}{
	"tools/call": {ToolExecute, catalog.KindTool, "name"},
	methodRead:   {ResourceRead, catalog.KindResource, "uri"},
	methodGet:    {PromptGet, catalog.KindPrompt, "name"},
}

// Judge decides about a direct call before it is made: nil, or an *mcp.Error for
// the agent. It is the same decision as the meta-tool's that does the same, with
// the pin, the policy and the quota of the single tool; require_approval asks the
// person through r.Peer. Other methods pass.
//
// There is one place, or several where a server shows the tools of several as
// its own: then the strictest verdict counts. What is not in the catalog is
// judged by its name and place, and rules that keep calls back match it whatever
// they say of tags, hints and versions.
//
// Quotas count by the session that mcp.Caller(ctx) names, r's own where there is
// none. It is safe for concurrent use.
func (g *Gateway) Judge(ctx context.Context, places []Place, r *mcp.Request) error {
	verb, ok := directVerbs[r.Method]
	if !ok || len(places) == 0 {
		return nil
	}
	start := time.Now()
	name, err := soleString(r.Params, verb.param)
	if err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "%s: %v", r.Method, err)
	}
	session := mcp.Caller(ctx)
	if session == nil {
		session = r.Session
	}
	s := g.opts.Upstreams.Snapshot()
	e, v := g.strictest(s, places, verb.metaTool, verb.kind, name)
	st := g.state.direct(session)
	err = g.pinned(s.Catalog)
	if err == nil {
		args := json.RawMessage(rawjson.Get(r.Params, "arguments"))
		if verb.kind == catalog.KindResource {
			args = rawjson.Quote(name)
		}
		err = g.carryOut(ctx, r, v, deed{verb.metaTool, e, fmt.Sprintf("%s of %q at server %q", r.Method, cutChars(name, 80), e.Upstream), true}, args)
	}
	if err == nil && !g.opts.RateLimits.empty() {
		if b := st.take(time.Since(g.state.started), true, g.opts.RateLimits.scopes("", e)); b != nil {
			err = b.error()
		}
	}
	if err == nil {
		return nil
	}
	if g.opts.OnEvent != nil {
		g.opts.OnEvent(g.event(&metaCall{name: verb.metaTool, request: r, state: st, entry: e}, err, time.Since(start)))
	}
	return asProtocol(err)
}

// strictest returns the verdict on what a name means at the places, and the
// entry that it is about.
func (g *Gateway) strictest(s *Snapshot, places []Place, metaTool string, kind catalog.Kind, name string) (about *catalog.Entry, v verdict) {
	judge := func(e *catalog.Entry, k known) {
		if one := g.opts.Policy.decideAs(metaTool, e, k); about == nil || one.action.severity() > v.action.severity() {
			about, v = e, one
		}
	}
	for _, p := range places {
		if e := s.entryAt(p.Upstream, kind, name); e != nil {
			judge(e, knownWhole)
		}
		if rest, ok := strings.CutPrefix(name, p.Prefix); ok && p.Prefix != "" {
			if e := s.entryAt(p.Upstream, kind, rest); e != nil {
				judge(e, knownWhole)
			}
		}
	}
	if about != nil {
		return about, v
	}
	for _, p := range places {
		e := &catalog.Entry{Kind: kind, Upstream: p.Upstream, Namespace: catalog.MapNamespace(p.Namespace), Name: name, RawName: name}
		e.ID = e.Namespace + ":" + name
		if kind != catalog.KindTool {
			e.ID = string(kind) + "::" + e.ID
		}
		if kind == catalog.KindResource {
			e.URI = name
		}
		k := knownName
		if p.Renamed {
			k = knownPlace
		}
		judge(e, k)
	}
	return about, v
}

// keys finds entries of a snapshot by what their upstreams call them.
type keys struct {
	once sync.Once
	of   map[catalog.Key]*catalog.Entry
}

// entryAt returns what an upstream calls name, nil where it lists no such thing.
// For a URI that no resource has, that is the template that may have made it.
func (s *Snapshot) entryAt(upstream string, kind catalog.Kind, name string) *catalog.Entry {
	s.keys.once.Do(func() {
		entries := s.Catalog.Entries()
		s.keys.of = make(map[catalog.Key]*catalog.Entry, len(entries))
		for _, e := range entries {
			// Of two that the upstream does not tell apart, the first counts.
			if key := e.Key(); s.keys.of[key] == nil {
				s.keys.of[key] = e
			}
		}
	})
	if e := s.keys.of[catalog.Key{Upstream: upstream, Kind: kind, Name: name}]; e != nil || kind != catalog.KindResource {
		return e
	}
	for _, t := range s.parsedTemplates() {
		if t.entry.Upstream != upstream {
			continue
		}
		if _, ok := t.template.Match(name); ok {
			return t.entry
		}
	}
	return nil
}

// direct is what is kept of direct calls for a session: their quotas. Such a
// session is the router's and is not in the list of those that use the gateway.
func (s *State) direct(of *mcp.Session) *sessionState {
	return of.Value(directKey{s}, func() any {
		return &sessionState{tag: telemetry.SessionTag(of.ID()), principal: of.Principal()}
	}).(*sessionState)
}

type directKey struct{ of *State }

// soleString returns a string member of params. Members whose names differ from
// it in case only are refused: servers that do not mind case would take another
// one than was judged.
func soleString(params []byte, key string) (value string, err error) {
	var raw []byte
	var other string
	n := 0
	if len(params) == 0 {
		return "", fmt.Errorf("params need %q", key)
	}
	if err := rawjson.EachMember(params, func(m rawjson.Member) bool {
		switch {
		case string(m.Key) == key:
			raw = m.Value
			n++
		case strings.EqualFold(string(m.Key), key):
			other = string(m.Key)
		}
		return true
	}); err != nil {
		return "", fmt.Errorf("params cannot be read: %w", err)
	}
	switch {
	case other != "":
		return "", fmt.Errorf("params have a member %q, which some servers take for %q: leave it out", other, key)
	case n > 1:
		return "", fmt.Errorf("params have %q more than once", key)
	case n == 0:
		return "", fmt.Errorf("params need %q", key)
	}
	if value, err = rawjson.String(raw); err != nil {
		return "", fmt.Errorf("%q must be a string", key)
	}
	return value, nil
}
