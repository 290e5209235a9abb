package catalog

import (
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Only returns a catalog with the entries of c for which keep returns true. It shares the entries
// and their ids with c, and has the Hash of c, so that a pinned catalog stays the pinned one. Paths
// and the cards of namespaces are made only of the kept entries, when they are first asked for.
// Nothing in the result reveals the other entries, except Hash, Findings, Partial and Upstreams.
// Use the result to look things up: With and Without must not be called on it.
func (c *Catalog) Only(keep func(*Entry) bool) *Catalog {
	out := &Catalog{limits: c.limits, compiled: c.compiled, segments: c.segments, added: c.added, spaces: make(map[string]*space, len(c.spaces)), pasts: c.pasts, held: c.held, whole: c}
	for namespace, s := range c.spaces {
		kept := s.only(namespace, keep)
		if kept == nil {
			continue
		}
		out.spaces[namespace] = kept
		out.kinds.add(kept.kinds, 1)
	}
	return out
}

// only returns the part of a space that is kept: s itself if that is all of it, nil if it is empty.
func (s *space) only(namespace string, keep func(*Entry) bool) *space {
	kept := make([]*Entry, 0, len(s.entries))
	for _, e := range s.entries {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	switch len(kept) {
	case len(s.entries):
		return s
	case 0:
		return nil
	}
	return &space{segments: s.segments, most: s.most, entries: slices.Clip(kept), kinds: tallyOf(kept), disputes: s.disputes, digest: s.digest, later: &later{namespace: namespace}}
}

// later is the part of a space that is made when it is first asked for.
type later struct {
	namespace string
	once      sync.Once
}

// tree returns the path tree of a kind, or nil.
func (s *space) tree(kind primitive.Kind) *tree {
	s.prepare()
	return s.trees[kind]
}

// leaf returns the leaf of an id, or nil.
func (s *space) leaf(id string) *node {
	s.prepare()
	return s.index[id]
}

// lookup returns the entry of an id, or nil.
func (s *space) lookup(id string) *Entry {
	if s.later == nil {
		if n := s.index[id]; n != nil {
			return n.entry
		}
		return nil
	}
	at, found := slices.BinarySearchFunc(s.entries, id, func(e *Entry, id string) int { return strings.Compare(e.ID, id) })
	if !found {
		return nil
	}
	return s.entries[at]
}

// prepare builds the trees of a space that has none yet.
func (s *space) prepare() {
	if s.later != nil {
		s.later.once.Do(func() { s.plant(s.later.namespace) })
	}
}

// plant builds the trees of the entries, and their index.
func (s *space) plant(namespace string) {
	s.trees = map[primitive.Kind]*tree{}
	s.index = make(map[string]*node, len(s.entries))
	surfaces := map[primitive.Kind][]*Entry{}
	for _, e := range s.entries {
		surfaces[e.Kind.Surface()] = append(surfaces[e.Kind.Surface()], e)
	}
	about := ""
	for _, seg := range s.segments {
		// A server of which nothing is kept must not describe the namespace.
		if kept := slices.ContainsFunc(s.entries, func(e *Entry) bool { return e.Upstream == seg.upstream }); kept && seg.about != "" {
			about = seg.about
			break
		}
	}
	for kind, entries := range surfaces {
		t := buildTree(namespace, about, kind, entries, s.most)
		s.trees[kind] = t
		t.root.collect(s.index)
	}
}

// Whole returns the catalog that Only made c of, otherwise c.
func (c *Catalog) Whole() *Catalog {
	if c == nil || c.whole == nil {
		return c
	}
	return c.whole
}
