package metatool

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/mcp"
)

// A server may list for each caller, because what it lists depends on the caller's credential. Such a
// caller has a whole of its own, which takes the place of the common snapshot in all that finds, lists
// or judges something for the caller:
//
//	common snapshot ───────────────┐
//	listings of the caller ─▶ one ─┴▶ own (kept by the key of the lists) ─▶ part by policy and profile
//
// Entries of others are not in it, so ids, ranks, errors and notices cannot tell of them. Callers
// whose listings are equal share one.

// OwnLists knows the lists of servers for single principals. Its methods are called concurrently.
// The principal and its grant come from the identity in ctx.
type OwnLists interface {
	// OwnLists returns the lists of a principal. It does not wait: it starts to fetch those that are
	// missing.
	OwnLists(ctx context.Context) primitive.Lists
	// PeekOwnLists is OwnLists without a request of the principal: it fetches nothing, and does not
	// count as a use of the lists.
	PeekOwnLists(ctx context.Context) primitive.Lists
	// AwaitOwnLists waits until nothing is being fetched for a principal, at most for a time.
	AwaitOwnLists(ctx context.Context, most time.Duration)
}

// ownWait bounds how long a request that looks at the catalog waits for the lists of its principal.
const ownWait = 2 * time.Second

// composer makes the wholes of callers with lists of their own. It is safe for concurrent use. A nil
// composer has none.
type composer struct {
	lists  OwnLists
	common Upstreams
	reader *catalog.Reader

	mu    sync.Mutex // guards below
	known *bounded.Map[string, *own]
	read  map[weak.Pointer[primitive.Listing]]weak.Pointer[ownListing]
	sweep int // the size of read at which dead pointers are removed
}

// newComposer returns nil if no server lists for each caller.
func newComposer(lists OwnLists, common Upstreams) *composer {
	if lists == nil {
		return nil
	}
	return &composer{
		lists: lists, common: common, reader: common.Snapshot().Catalog.Reader(),
		known: bounded.New(bounded.Options[string, *own]{MaxCount: maxClasses, KeepUsed: true}),
		read:  map[weak.Pointer[primitive.Listing]]weak.Pointer[ownListing]{}, sweep: 4 * maxClasses,
	}
}

// of returns the whole of a principal, and its key: "" and nil if all is common.
// Where displace is false, no request asks for it: a whole that is not kept takes no other's place,
// and looking fetches no lists.
func (c *composer) of(id *identity.Identity, displace bool) (*own, string) {
	if c == nil {
		return nil, ""
	}
	ask := c.lists.OwnLists
	if !displace {
		ask = c.lists.PeekOwnLists
	}
	lists := ask(identity.With(context.Background(), id))
	if lists.Key == "" && len(lists.Missing) == 0 {
		return nil, ""
	}
	key := lists.Key + "\x00" + strings.Join(lists.Missing, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known.Get(key); ok {
		return known, key
	}
	o := &own{Upstreams: c.common, from: c, lists: lists}
	if displace || c.known.Len() < maxClasses {
		c.known.Put(key, o, 0)
	}
	return o, key
}

// listing returns what a listing has become. It is kept for as long as a whole has it.
func (c *composer) listing(l *primitive.Listing) *ownListing {
	key := weak.Make(l)
	c.mu.Lock()
	known := c.read[key].Value()
	c.mu.Unlock()
	if known != nil {
		return known
	}
	now := &ownListing{upstream: l.Upstream, catalog: c.reader.Read(l)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[key] = weak.Make(now)
	if len(c.read) >= c.sweep {
		maps.DeleteFunc(c.read, func(_ weak.Pointer[primitive.Listing], l weak.Pointer[ownListing]) bool { return l.Value() == nil })
		c.sweep = max(4*maxClasses, 2*len(c.read))
	}
	return now
}

// ownListing is one listing, as all callers see it whose server lists just that for them.
type ownListing struct {
	upstream string
	catalog  *catalog.Catalog

	once sync.Once
	docs indexes // made by the first search
}

// indexes returns indexes of only the entries, with the options of other ones.
func (l *ownListing) indexes(like indexes) indexes {
	l.once.Do(func() {
		s := &Snapshot{Catalog: l.catalog, Index: like.tools.Empty(), Resources: like.resources.Empty(), Prompts: like.prompts.Empty()}
		s.put(l.upstream)
		l.docs = s.indexes()
	})
	return l.docs
}

// own is the Upstreams of callers with equal lists of their own: all entries that may exist for them.
type own struct {
	Upstreams // of the entries that all callers share
	from      *composer
	lists     primitive.Lists

	mu       sync.Mutex    // guards below
	listings []*ownListing // nil until they are read
	of       *Snapshot     // common
	kept     *Snapshot
}

// Snapshot implements Upstreams.
func (o *own) Snapshot() *Snapshot {
	s := o.Upstreams.Snapshot()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of != s {
		for _, l := range o.lists.Of[len(o.listings):] {
			o.listings = append(o.listings, o.from.listing(l))
		}
		o.of, o.kept = s, s.join(o.listings)
	}
	return o.kept
}

// Missing implements reportsMissing.
func (o *own) Missing() []Missing {
	var all []Missing
	if known, ok := o.Upstreams.(reportsMissing); ok {
		all = slices.Clone(known.Missing())
	}
	if known, ok := o.Upstreams.(reportsOwn); ok && len(o.lists.Missing) > 0 {
		all = append(all, known.MissingOwn(o.lists.Missing)...)
	}
	return all
}

// Down implements reportsDown.
func (o *own) Down() []Missing {
	if known, ok := o.Upstreams.(reportsDown); ok {
		return known.Down()
	}
	return nil
}

// join returns a snapshot of the entries of s and of listings of a caller's own.
func (s *Snapshot) join(listings []*ownListing) *Snapshot {
	catalogs := make([]*catalog.Catalog, len(listings))
	for i, l := range listings {
		catalogs[i] = l.catalog
	}
	out := &Snapshot{Catalog: s.Catalog.Join(catalogs...), templates: new(templates), keys: new(keys)}
	out.later = makeLater(out.Catalog, func() indexes { return out.joined(s, listings) })
	return out
}

// joined returns the indexes of a snapshot that join has made.
func (s *Snapshot) joined(common *Snapshot, listings []*ownListing) indexes {
	all := &Snapshot{Catalog: s.Catalog, Index: common.Index, Resources: common.Resources, Prompts: common.Prompts}
	done := map[string]bool{}
	for _, l := range listings {
		if done[l.upstream] = slices.Equal(l.catalog.Of(l.upstream), s.Catalog.Of(l.upstream)); done[l.upstream] {
			own := l.indexes(common.indexes())
			all.Index, all.Resources, all.Prompts = all.Index.Join(own.tools), all.Resources.Join(own.resources), all.Prompts.Join(own.prompts)
		}
	}
	// Servers that share a namespace with one of the listings may have other ids in this snapshot.
	for _, upstream := range s.Catalog.Changed(common.Catalog) {
		if !done[upstream] && !slices.Equal(common.Catalog.Of(upstream), s.Catalog.Of(upstream)) {
			all.put(upstream)
		}
	}
	all.Prepare()
	return indexes{all.Index, all.Resources, all.Prompts}
}

// await waits for the lists of the principal of a request, if the request looks for something that
// may be in them.
func (g *Gateway) await(ctx context.Context, r *mcp.Request) {
	if g.misses(ctx) && g.looks(ctx, r) {
		g.composer.lists.AwaitOwnLists(ctx, ownWait)
	}
}

// looks reports whether a request lists entries, or names one that is not known.
func (g *Gateway) looks(ctx context.Context, r *mcp.Request) bool {
	if r.IsNotification() {
		return false
	}
	switch r.Method {
	case methodCall:
	case "ping", "logging/setLevel", "resources/unsubscribe", "initialize", "server/discover":
		return false
	default:
		return true
	}
	f := r.Fields()
	id, name := "", rawjson.Text(f.Name)
	switch name {
	case ToolView:
		return false
	case ToolExecute, ToolHydrate:
		id = rawjson.Text(rawjson.Get(f.Arguments, "tool_id"))
	case ResourceRead:
		id = rawjson.Text(rawjson.Get(f.Arguments, "resource_id"))
	case PromptGet:
		id = rawjson.Text(rawjson.Get(f.Arguments, "prompt_id"))
	case ToolBrowse, ResourceBrowse, PromptBrowse, ToolRun:
		return true
	default:
		return !g.Names(ctx, name)
	}
	_, known := g.View(ctx).Catalog.Lookup(id)
	return !known
}

// wholeOf returns all entries that may exist for the caller of a request, whatever policy and profile
// say.
func (g *Gateway) wholeOf(ctx context.Context) *Snapshot {
	if o, _ := g.composer.of(identity.From(ctx), true); o != nil {
		return o.Snapshot()
	}
	return g.opts.Upstreams.Snapshot()
}

// WholeOf returns all entries that may exist for the caller of a request, for programs without a
// Gateway. Nil lists say that all servers list the same for all callers.
func WholeOf(ctx context.Context, u Upstreams, lists OwnLists) *Snapshot {
	if o, _ := newComposer(lists, u).of(identity.From(ctx), true); o != nil {
		return o.Snapshot()
	}
	return u.Snapshot()
}

// ListsChanged must be called after what servers list for a principal has changed. It notifies the
// agents of that principal whose lists are others now, in the background, and looks at no other agent.
func (s *State) ListsChanged(principal string) {
	s.compareLater(false, principal)
}

// misses reports whether lists of the caller of a request are not known.
func (g *Gateway) misses(ctx context.Context) bool {
	return g.composer != nil && len(g.composer.lists.OwnLists(ctx).Missing) > 0
}

// awaitServers waits for the lists of the caller of a request that one of some servers has not given
// yet.
func (g *Gateway) awaitServers(ctx context.Context, places []Place) {
	if g.composer == nil {
		return
	}
	missing := g.composer.lists.OwnLists(ctx).Missing
	if slices.ContainsFunc(places, func(p Place) bool { return slices.Contains(missing, p.Upstream) }) {
		g.composer.lists.AwaitOwnLists(ctx, ownWait)
	}
}
