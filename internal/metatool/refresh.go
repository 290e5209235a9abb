package metatool

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/mcp"
)

// After each change of the catalog, agents whose lists have changed are notified, and operators see
// how the servers' definitions differ from before.
//
//	upstream ─▶ catalog.Live: new snapshot, swapped whole ─▶ State.Refresh
//	                                                            ├─▶ list_changed to the clients concerned
//	                                                            └─▶ []catalog.Change, since the last and since the first

// listTags are hashes of the lists, which tell two lists apart.
type listTags struct {
	of                        *catalog.Catalog
	tools, resources, prompts uint64
}

var tagSeed = maphash.MakeSeed()

// tags returns the tags of the gateway's current lists.
func (l *listing) tags() listTags {
	s := l.upstreams.Snapshot()
	if t := l.tagged.Load(); t != nil && t.of == s.Catalog {
		return *t
	}
	t := listTags{of: s.Catalog, resources: s.Catalog.Content(primitive.KindResource), prompts: s.Catalog.Content(primitive.KindPrompt)}
	_, list := l.tools(s)
	t.tools = maphash.Bytes(tagSeed, list)
	l.tagged.Store(&t)
	return t
}

// follower is a client that is notified when a list changes.
type follower struct {
	put func(method string, params json.RawMessage) // must not block

	mu   sync.Mutex // guards below
	by   choice
	tags listTags
}

// newFollower returns a follower with an agent's choice, which calls put.
func newFollower(by choice, put func(method string, params json.RawMessage)) *follower {
	by.by.id = by.by.id.WithoutCredential() // a follower outlives the request
	return &follower{put: put, by: by}
}

// see notes what lists there are now for an agent's choice.
func (f *follower) see(by choice, now listTags) {
	by.by.id = by.by.id.WithoutCredential()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.by, f.tags = by, now
}

// choice returns the mode in which the follower has seen the lists.
func (f *follower) choice() choice {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by
}

// compare notifies the follower of the lists that differ from those it has seen.
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

// followers holds the clients that are notified when a list changes.
type followers struct {
	state  *State
	faces  *faces
	logger *slog.Logger
}

// attach registers a follower. It records the seen lists after the registration, so that no refresh
// is lost.
func (w *followers) attach(f *follower) (detach func()) {
	s := w.state
	s.mu.Lock()
	s.follow[f] = struct{}{}
	s.mu.Unlock()
	by := f.choice()
	f.see(by, w.faces.choose(by).lists.tags())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.follow, f)
	}
}

// follow registers a legacy session that is about to get a list. Clients of the modern era
// subscribe.
func (w *followers) follow(by choice, r *mcp.Request, st *sessionState) {
	if r.Modern() {
		return
	}
	st.mu.Lock()
	f := st.follows
	if f != nil {
		st.mu.Unlock()
		f.see(by, w.faces.choose(by).lists.tags())
		return
	}
	session := r.Session
	post := bridge.NewPost(&w.state.fan, func(ctx context.Context, n bridge.Notice) {
		if err := session.Peer().Notify(ctx, n.Method, n.Params); err != nil {
			w.logger.Debug("an agent was not told of a change", "session", st.tag, "method", n.Method, "err", err)
		}
	})
	f = newFollower(by, post.Put)
	st.follows = f
	st.mu.Unlock()
	detach := w.attach(f)
	session.OnClose(func() {
		detach()
		post.End()
	})
}

// Refresh must be called after the served catalog has become c, or another Gateway has taken over
// the State. It notifies agents whose lists have changed, in the background. It returns the changes
// of the upstreams' definitions since the previous Refresh.
func (s *State) Refresh(c *catalog.Catalog) []catalog.Change {
	changes := s.drift.observe(c)
	switch g := s.front.Load(); {
	case g == nil:
	case g.composer != nil:
		s.compareLater(true, "")
	default:
		g.compareAll(context.Background(), s.followersOf(func(viewer) bool { return true }))
	}
	return changes
}

// followersOf returns the followers whose viewers satisfy fits.
func (s *State) followersOf(fits func(by viewer) bool) []*follower {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.follow))
	s.mu.Unlock()
	return slices.DeleteFunc(all, func(f *follower) bool { return !fits(f.choice().by) })
}

// compareAll notifies followers of the lists that differ from those they have seen, until ctx ends.
func (g *Gateway) compareAll(ctx context.Context, followers []*follower) {
	// A refresh looks at the lists of every class. They may be more than are kept, so it looks once at
	// each, and displaces none.
	type lists struct {
		class viewClass
		mode  Mode
		made  bool
	}
	now := map[lists]listTags{}
	for _, f := range followers {
		if ctx.Err() != nil {
			return
		}
		by := f.choice()
		class, own := g.classOf(&by.by, false)
		of := lists{class, by.mode, by.made}
		tags, known := now[of]
		if !known {
			tags = g.seenIn(class, own, by.by, false).faces.choose(by).lists.tags()
			now[of] = tags
		}
		f.compare(tags)
	}
}

// Restore says what upstreams listed first, in an earlier process or at another node of the cluster, each in a catalog
// of its own.
func (s *State) Restore(first map[string]*catalog.Catalog) { s.drift.restore(first) }

// Changes returns how all definitions differ from the first ones of this State: additions,
// removals, and changes with the old and the new value.
func (s *State) Changes() []catalog.Change { return s.drift.changes() }
