package gateway

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"sync"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/dispatch"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// What a refresh of the catalog does beside swapping the snapshot: agents whose
// lists are not the same any more are told, and what servers say differently of
// their tools than before is a change that operators see.
//
//	upstream ─▶ upstream.Live: new snapshot, swapped whole ─▶ State.Refresh
//	                                                            ├─▶ list_changed to whom it concerns
//	                                                            └─▶ []catalog.Change, since the last and since the first

// listTags tell lists apart without keeping them.
type listTags struct {
	of                        *catalog.Catalog
	tools, resources, prompts uint64
}

var (
	tagSeed  = maphash.MakeSeed()
	emptyTag = maphash.Bytes(tagSeed, nil) // of an empty list
)

// tags returns the tags of the lists that this gateway gives out now.
func (g *Gateway) tags() listTags {
	s := g.opts.Upstreams.Snapshot()
	if t := g.tagged.Load(); t != nil && t.of == s.Catalog {
		return *t
	}
	t := listTags{of: s.Catalog, resources: emptyTag, prompts: emptyTag}
	if g.opts.Mode == ModeProxy {
		t.tools = maphash.Bytes(tagSeed, g.proxyTools().result)
	} else {
		t.tools = maphash.Bytes(tagSeed, g.toolList(s))
	}
	if s.hasResources() || s.hasPrompts() {
		var resources, prompts maphash.Hash
		resources.SetSeed(tagSeed)
		prompts.SetSeed(tagSeed)
		for _, e := range s.Catalog.Entries() {
			h := &resources
			switch e.Kind {
			case catalog.KindTool:
				continue
			case catalog.KindPrompt:
				h = &prompts
			}
			_, _ = h.Write(e.Raw) // a hash does not fail
			_ = h.WriteByte(0)
		}
		t.resources, t.prompts = resources.Sum64(), prompts.Sum64()
	}
	g.tagged.Store(&t)
	return t
}

// follower is somebody who is told when a list changes.
type follower struct {
	put func(method string, params json.RawMessage) // must not block

	mu   sync.Mutex // guards tags
	tags listTags
}

// see notes what lists there are now.
func (f *follower) see(now listTags) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tags = now
}

// compare tells the follower what is another list than the one it has seen.
func (f *follower) compare(now listTags) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tags.of == nil {
		return // it is about to see them
	}
	if f.tags.tools != now.tools {
		f.put(bridge.ToolsChanged, nil)
	}
	if f.tags.prompts != now.prompts {
		f.put(bridge.PromptsChanged, nil)
	}
	if f.tags.resources != now.resources {
		f.put(bridge.ResourcesChanged, nil)
	}
	f.tags = now
}

// attach registers a follower. The lists it has seen are set afterwards, so that
// no refresh is lost in between.
func (g *Gateway) attach(f *follower) (detach func()) {
	s := g.state
	s.mu.Lock()
	s.follow[f] = struct{}{}
	s.mu.Unlock()
	f.see(g.tags())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.follow, f)
	}
}

// follow has a legacy session told when a list changes that it is about to get.
// Clients of the modern era subscribe.
func (g *Gateway) follow(r *mcp.Request, st *sessionState) {
	if r.Modern() {
		return
	}
	st.mu.Lock()
	f := st.follows
	if f != nil {
		st.mu.Unlock()
		f.see(g.tags())
		return
	}
	session := r.Session
	post := bridge.NewPost(&g.state.fan, func(ctx context.Context, n bridge.Notice) {
		if err := session.Peer().Notify(ctx, n.Method, n.Params); err != nil {
			g.opts.Logger.Debug("an agent was not told of a change", "session", st.tag, "method", n.Method, "err", err)
		}
	})
	f = &follower{put: post.Put}
	st.follows = f
	st.mu.Unlock()
	detach := g.attach(f)
	session.OnClose(func() {
		detach()
		post.End()
	})
}

// Refresh is called after the catalog that is served has changed to c, or another
// Gateway has taken the State over. Agents whose lists are not the same any more
// are told, in the background. It returns what the upstreams say differently than
// at the Refresh before.
func (s *State) Refresh(c *catalog.Catalog) []catalog.Change {
	changes := s.drift.observe(c)
	g := s.front.Load()
	if g == nil {
		return changes
	}
	now := g.tags()
	s.mu.Lock()
	followers := make([]*follower, 0, len(s.follow))
	for f := range s.follow {
		followers = append(followers, f)
	}
	s.mu.Unlock()
	for _, f := range followers {
		f.compare(now)
	}
	return changes
}

// Changes returns in what the definitions of all entries differ from what their
// upstreams said of them first, since this State was made: additions, removals,
// and what was changed to what.
func (s *State) Changes() []catalog.Change { return s.drift.changes() }

// feed is what an upstream's Peer offers beside calls.
type feed interface {
	SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error)
}

// watch has put called for each update of a resource, if the controls let the
// agent read it: to hear when something changes is to read a part of it. What they
// refuse of the updates, such as those of other resources below it, is not told.
func (g *Gateway) watch(ctx context.Context, r *mcp.Request, e *catalog.Entry, uri, asked string, put func(method string, params json.RawMessage)) (stop func(), err error) {
	call := newRead(&metaCall{request: r, state: g.state.session(r.Session)}, nil, e, methodSubscribe, rawjson.Quote(uri))
	call.URI = uri
	if err := g.admitNative(ctx, call); err != nil {
		return nil, err
	}
	if err := call.Pass.Check(call.Method); err != nil {
		return nil, err
	}
	ctx = mcp.WithCaller(ctx, r.Session)
	peer, err := g.opts.Upstreams.Peer(ctx, e.Upstream)
	if err != nil {
		return nil, err
	}
	server, ok := peer.(feed)
	if !ok {
		return nil, mcp.Errorf(mcp.KindMethodNotFound, "server %q keeps no subscriptions", e.Upstream)
	}
	return server.SubscribeResource(ctx, uri, func(params json.RawMessage) {
		about := rawjson.Text(rawjson.Get(params, "uri"))
		if g.state.front.Load().Refuses([]Place{{Upstream: e.Upstream, Namespace: e.Namespace}}, dispatch.MethodRead, about) {
			return
		}
		if asked != uri && about == uri {
			// The client knows it by another name.
			if renamed, err := rawjson.Set(params, "uri", rawjson.Quote(asked)); err == nil {
				params = renamed
			}
		}
		put(bridge.ResourceUpdated, params)
	})
}

// subscribe answers resources/subscribe of the legacy era.
func (g *Gateway) subscribe(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	st := g.state.session(r.Session)
	uri, e, err := g.wantedResource(r, st)
	if err != nil {
		return nil, err
	}
	asked := rawjson.Text(r.Fields().URI)
	g.follow(r, st)
	st.mu.Lock()
	if st.ended { // while this was on its way
		st.mu.Unlock()
		return nil, mcp.Errorf(mcp.KindSessionNotFound, "the session has ended")
	}
	if st.subs == nil {
		st.subs = map[string]func(){}
	}
	_, double := st.subs[asked]
	n := len(st.subs)
	if !double && n < bridge.MaxResources {
		st.subs[asked] = func() {} // its place
	}
	put := st.follows.put
	st.mu.Unlock()
	switch {
	case double:
		return json.RawMessage("{}"), nil
	case n >= bridge.MaxResources:
		return nil, mcp.Errorf(mcp.KindOverloaded, "this session is subscribed to %d resources, which is the bound; unsubscribe from some", n)
	}
	stop, err := g.watch(ctx, r, e, uri, asked, put)
	st.mu.Lock()
	_, there := st.subs[asked]
	if there && err == nil {
		st.subs[asked] = stop
	} else if err != nil {
		delete(st.subs, asked)
	}
	st.mu.Unlock()
	if err != nil {
		return nil, g.redactError(err)
	}
	if !there { // unsubscribed meanwhile, or the session has ended
		stop()
	}
	return json.RawMessage("{}"), nil
}

// unsubscribe is the inverse of subscribe.
func (g *Gateway) unsubscribe(r *mcp.Request) (json.RawMessage, error) {
	uri := rawjson.Text(r.Fields().URI)
	if uri == "" {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s needs a uri", r.Method)
	}
	st := g.state.session(r.Session)
	st.mu.Lock()
	stop := st.subs[uri]
	delete(st.subs, uri)
	st.mu.Unlock()
	if stop != nil {
		stop()
	}
	return json.RawMessage("{}"), nil
}

// listen serves subscriptions/listen of the modern era until the client closes
// it.
func (g *Gateway) listen(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	if !r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	wish, err := bridge.ReadWish(r.Params, g.Capabilities(r))
	if err != nil {
		return nil, err
	}
	box := bridge.NewMailbox()
	defer g.attach(&follower{put: func(method string, params json.RawMessage) {
		if wish.Wants(method) {
			box.Put(method, params)
		}
	}})()
	st := g.state.session(r.Session)
	for _, asked := range append([]string(nil), wish.Resources...) {
		one := *r
		one.Params = append(rawjson.AppendString([]byte(`{"uri":`), asked), '}')
		uri, e, err := g.wantedResource(&one, st)
		if err == nil {
			var stop func()
			if stop, err = g.watch(ctx, &one, e, uri, asked, box.Put); err == nil {
				defer stop()
				continue
			}
		}
		g.opts.Logger.DebugContext(ctx, "a resource cannot be subscribed to", "session", st.tag, "err", g.opts.Redactor.Redact(err.Error()))
		wish.Drop(asked)
	}
	tell := func(method string, params json.RawMessage) error {
		params, err := bridge.WithSubscription(params, r.ID)
		if err != nil {
			return err
		}
		return r.Peer.Notify(ctx, method, params)
	}
	if err := tell("notifications/subscriptions/acknowledged", wish.Granted); err != nil {
		return nil, err
	}
	if !wish.Empty() {
		box.Deliver(ctx, func(n bridge.Notice) {
			if err := tell(n.Method, n.Params); err != nil {
				g.opts.Logger.DebugContext(ctx, "an agent was not told of a change", "session", st.tag, "method", n.Method, "err", err)
			}
		})
	}
	return bridge.WithSubscription(json.RawMessage("{}"), r.ID)
}
