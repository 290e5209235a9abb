package metatool

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
)

// Where entries may be hidden, each class of callers has a Gateway of its own over a part of the
// catalog, at each profile another one. All that finds or lists something looks at that part, so a
// hidden entry is unknown everywhere. Sessions, quotas, caches and the controls belong to the whole
// Gateway, and the controls look at the whole catalog.
//
//	request ─▶ Gateway ─▶ classes: profile, identity ─▶ Gateway of the class ─▶ part ─▶ Upstreams
//
// Without Policy.Hide, profiles and servers that list for each caller, no class exists, and requests go
// the direct way.

// maxClasses bounds the classes that are kept. A class beyond it takes the place of the one that was
// not used for the longest time, and its lists are made again when it comes back.
const maxClasses = 64

// classes are the gateways of the classes of callers. It is safe for concurrent use.
type classes struct {
	whole   *Gateway
	callers *authz.Classes // nil: the policy hides nothing, and only profiles divide the catalog
	mu      sync.Mutex     // so that one class is made once
	of      *bounded.Map[viewClass, *Gateway]
}

// viewClass is a class of viewers. Without Policy.Hide all callers at a profile are one class.
type viewClass struct {
	profile string
	callers authz.Class
	lists   string // the key of the lists of their own; see composer
}

// newClasses returns nil if every caller sees everything.
func newClasses(g *Gateway) *classes {
	if !g.opts.Policy.Hides() && len(g.opts.Profiles) == 0 && g.composer == nil {
		return nil
	}
	c := &classes{whole: g, of: bounded.New(bounded.Options[viewClass, *Gateway]{MaxCount: maxClasses, KeepUsed: true})}
	if g.opts.Policy.Hides() {
		c.callers = g.opts.Policy.Classes()
	}
	return c
}

// viewed returns the gateway that a viewer sees.
func (g *Gateway) viewed(by viewer) *Gateway { return g.seenBy(by, true) }

// seenBy returns the gateway that a viewer sees. If displace is false, a class that is not kept takes
// no other's place.
func (g *Gateway) seenBy(by viewer, displace bool) *Gateway {
	class, lists := g.classOf(&by, displace)
	return g.seenIn(class, lists, by, displace)
}

// seenIn is seenBy for a viewer whose class is known.
func (g *Gateway) seenIn(class viewClass, lists *own, by viewer, displace bool) *Gateway {
	c := g.classes
	switch {
	case by.profile == "" && lists == nil && (c == nil || c.callers == nil):
		return g
	case c == nil: // the last profile was removed while the request was on its way
		return (&classes{whole: g}).make(by, lists)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.of.Get(class); ok {
		return known
	}
	of := c.make(viewer{by.id.WithoutCredential(), by.profile}, lists)
	if displace || c.of.Len() < maxClasses {
		c.of.Put(class, of, 0)
	}
	return of
}

// classOf returns the class of a viewer, and the whole of its own lists, nil if it has none. It gives
// a viewer without an identity the local one.
func (g *Gateway) classOf(by *viewer, displace bool) (class viewClass, lists *own) {
	if by.id == nil {
		by.id = identity.From(context.Background())
	}
	class.profile = by.profile
	if c := g.classes; c != nil && c.callers != nil {
		class.callers = c.callers.Of(by.id, by.profile)
	}
	lists, class.lists = g.composer.of(by.id, displace)
	return class, lists
}

// make returns the gateway of a class with a viewer. Its lists are nil if it has none of its own.
func (c *classes) make(by viewer, lists *own) *Gateway {
	opts, whole := c.whole.opts, c.whole.opts.Upstreams
	if lists != nil {
		whole = lists
	}
	selected, profile := extentOf(opts.Profiles, by.profile)
	if profile != nil && profile.Mode != nil {
		opts.Mode = *profile.Mode
	}
	seen := &part{Upstreams: whole, policy: opts.Policy, by: by, selected: selected}
	opts.Upstreams = seen
	g := newFaces(opts, whole, c.whole.ctl, c.whole.kept)
	for mode, face := range g.faces.of {
		if face.lists.main = c.whole.faces.of[mode].lists; lists != nil {
			face.lists.main = face.lists.main.with(lists)
		}
	}
	if opts.Audit != nil {
		g.accounts.audit.probes = &probes{to: opts.Audit, part: seen, faces: g.faces}
	}
	return g
}

// View returns the part of the catalog that exists for the caller of a request.
func (g *Gateway) View(ctx context.Context) *Snapshot {
	return g.viewed(viewerOf(ctx)).opts.Upstreams.Snapshot()
}

// part is the Upstreams of a class of viewers: the entries that exist for them.
type part struct {
	Upstreams
	policy   *dispatch.Policy
	by       viewer  // one of the class
	selected *extent // of the profile

	mu   sync.Mutex // guards below
	of   *Snapshot
	kept *Snapshot
}

// Snapshot implements Upstreams.
func (p *part) Snapshot() *Snapshot {
	s := p.Upstreams.Snapshot()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of != s {
		p.of, p.kept = s, p.partOf(s)
	}
	return p.kept
}

// partOf returns the part of a snapshot.
func (p *part) partOf(s *Snapshot) *Snapshot {
	sight, hides := p.sight(), p.policy.Hides()
	c := s.Catalog.Only(func(e *catalog.Entry) bool {
		return p.selected.has(e) && (!hides || sight.Sees(dispatch.VerbOf(e.Kind), s.about(e, e.URI)))
	})
	if c.Len() == s.Catalog.Len() {
		out := *s
		out.readableURI = func(e *catalog.Entry, uri string) bool { return p.reads(s, e, uri) }
		return &out
	}
	found := func(_, id string) bool {
		_, known := c.Lookup(id)
		return known
	}
	only := func() indexes {
		ix := s.indexes()
		return indexes{ix.tools.Only(found), ix.resources.Only(found), ix.prompts.Only(found)}
	}
	out := &Snapshot{
		Catalog: c, templates: new(templates), keys: new(keys),
		readableURI: func(e *catalog.Entry, uri string) bool { return p.reads(s, e, uri) },
	}
	if s.later != nil {
		out.later = makeLater(c, only)
	} else {
		ix := only()
		out.Index, out.Resources, out.Prompts = ix.tools, ix.resources, ix.prompts
	}
	return out
}

// sight returns what the policy lets the viewers of the class see.
func (p *part) sight() *dispatch.Sight { return p.policy.SightOf(p.by.id, p.by.profile) }

// reads reports whether a URI of the server of an entry exists for the caller. A template may make
// the URI of a resource that is hidden.
func (p *part) reads(whole *Snapshot, e *catalog.Entry, uri string) bool {
	if selected := p.selected.reads(e.Upstream, e.Namespace); !selected || !p.policy.Hides() {
		return selected
	}
	// The entry is judged as if it were listed: a condition that looks at parts of a call may hold.
	about := slices.DeleteFunc(whole.about(e, uri), func(s dispatch.Subject) bool { return s.Known != 0 })
	return p.sight().Sees(dispatch.VerbRead, about)
}

// Missing implements reportsMissing. A server is told of if it may have an entry that the caller
// could call.
func (p *part) Missing() []Missing {
	known, ok := p.Upstreams.(reportsMissing)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(known.Missing()), func(m Missing) bool {
		return !p.mayOffer(Place{Upstream: m.Upstream, Namespace: m.Namespace})
	})
}

// mayOffer reports whether a server that is not listed may have an entry for the caller.
func (p *part) mayOffer(at Place) bool {
	if !p.selected.mayHave(at.Upstream, catalog.MapNamespace(at.Namespace)) {
		return false
	}
	at.Renamed = true
	if p.sight().Sees(dispatch.VerbExecute, []dispatch.Subject{at.unlisted(primitive.KindTool, "")}) {
		return true
	}
	return p.policy.MayAllow(p.by.id, p.by.profile, func(pattern string) bool { return reachesSpace(pattern, at.Namespace) })
}

// reachesSpace reports whether a pattern may match an id of a namespace.
func reachesSpace(pattern, namespace string) bool {
	if _, body, ok := strings.Cut(pattern, "::"); ok {
		pattern = body
	}
	literal := pattern
	if i := strings.IndexAny(pattern, "*?"); i >= 0 {
		literal = pattern[:i]
	}
	space := catalog.MapNamespace(namespace) + ":"
	return strings.HasPrefix(literal, space) || literal != pattern && strings.HasPrefix(space, literal)
}

// Down implements reportsDown: the servers of visible entries.
func (p *part) Down() []Missing {
	known, ok := p.Upstreams.(reportsDown)
	if !ok {
		return nil
	}
	c := p.Snapshot().Catalog
	return slices.DeleteFunc(slices.Clone(known.Down()), func(m Missing) bool { return len(c.Of(m.Upstream)) == 0 })
}
