package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Catalog is everything that can be called, at one moment. It never changes and
// may be used concurrently. New returns an empty one.
type Catalog struct {
	limits   Limits
	segments []*segment // by priority
	added    int        // upstreams ever added, for segment.seq
	spaces   map[string]*space
	size     int

	entriesOnce sync.Once
	entries     []*Entry
	hashOnce    sync.Once
	hash        string
}

// New returns an empty catalog that holds schemas to limits.
func New(limits Limits) *Catalog {
	return &Catalog{limits: limits.withDefaults(), spaces: map[string]*space{}}
}

// With returns a catalog in which the entries of one upstream are those of a
// listing, and a report of what is wrong with them. All other entries are
// shared with c. A definition that is wrong is a finding and keeps no other out
// of the catalog. The listing is not kept.
func (c *Catalog) With(l Listing) (*Catalog, Report) {
	seg := buildSegment(&l, c.limits)
	next := c.derive()
	var old *segment
	for i, s := range next.segments {
		if s.upstream == l.Upstream {
			old, seg.seq = s, s.seq
			next.segments = slices.Delete(next.segments, i, i+1)
			break
		}
	}
	if old == nil {
		next.added++
		seg.seq = next.added
	}
	at, _ := slices.BinarySearchFunc(next.segments, seg, compareSegments)
	next.segments = slices.Insert(next.segments, at, seg)
	next.replace(old, seg)

	report := Report{Upstream: l.Upstream}
	if old != nil {
		report.Changes = diff(c.Of(l.Upstream), next.Of(l.Upstream))
	}
	report.add(seg.findings...)
	report.Omitted += seg.omitted
	for namespace := range seg.namespaces {
		for _, e := range next.spaces[namespace].entries {
			if e.Upstream != l.Upstream {
				continue
			}
			switch e.Kind {
			case KindTool:
				report.Tools++
			case KindPrompt:
				report.Prompts++
			default:
				report.Resources++
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(seg.namespaces)) {
		for _, f := range next.spaces[namespace].conflicts {
			if f.winner == l.Upstream || f.Upstream == l.Upstream {
				report.add(f.Finding)
			}
		}
	}
	return next, report
}

// Without returns a catalog without the entries of one upstream. What they hid
// of other upstreams comes back.
func (c *Catalog) Without(upstream string) *Catalog {
	for i, s := range c.segments {
		if s.upstream == upstream {
			next := c.derive()
			next.segments = slices.Delete(next.segments, i, i+1)
			next.replace(s, nil)
			return next
		}
	}
	return c
}

// derive returns a copy of c to be changed before anybody sees it.
func (c *Catalog) derive() *Catalog {
	return &Catalog{
		limits: c.limits, segments: slices.Clone(c.segments), added: c.added,
		spaces: maps.Clone(c.spaces), size: c.size,
	}
}

// replace builds anew the spaces that a segment was or is now part of.
func (c *Catalog) replace(old, seg *segment) {
	affected := map[string]bool{}
	for _, s := range []*segment{old, seg} {
		if s != nil {
			for namespace := range s.namespaces {
				affected[namespace] = true
			}
		}
	}
	for namespace := range affected {
		var members []*segment
		if before := c.spaces[namespace]; before != nil {
			c.size -= len(before.entries)
			members = slices.DeleteFunc(slices.Clone(before.segments), func(s *segment) bool { return s == old })
		}
		if seg != nil && seg.namespaces[namespace] != nil {
			at, _ := slices.BinarySearchFunc(members, seg, compareSegments)
			members = slices.Insert(members, at, seg)
		}
		if len(members) == 0 {
			delete(c.spaces, namespace)
			continue
		}
		s := buildSpace(namespace, members)
		c.spaces[namespace] = s
		c.size += len(s.entries)
	}
}

// Lookup returns the entry of an id. Only the exact id finds it.
func (c *Catalog) Lookup(id string) (*Entry, bool) {
	n := c.leaf(id)
	if n == nil {
		return nil, false
	}
	return n.entry, true
}

func (c *Catalog) leaf(id string) *node {
	namespace, ok := namespaceOf(id)
	if !ok {
		return nil
	}
	s := c.spaces[namespace]
	if s == nil {
		return nil
	}
	return s.index[id]
}

// Len returns the number of entries.
func (c *Catalog) Len() int { return c.size }

// Entries returns all entries sorted by id. The slice is shared and must not be
// changed.
func (c *Catalog) Entries() []*Entry {
	c.entriesOnce.Do(func() {
		c.entries = make([]*Entry, 0, c.size)
		for _, s := range c.spaces {
			c.entries = append(c.entries, s.entries...)
		}
		slices.SortFunc(c.entries, compareEntries)
	})
	return c.entries
}

// Of returns the entries of one upstream, sorted by id.
func (c *Catalog) Of(upstream string) []*Entry {
	var entries []*Entry
	for _, s := range c.segments {
		if s.upstream != upstream {
			continue
		}
		for namespace := range s.namespaces {
			for _, e := range c.spaces[namespace].entries {
				if e.Upstream == upstream {
					entries = append(entries, e)
				}
			}
		}
	}
	slices.SortFunc(entries, compareEntries)
	return entries
}

// Namespaces returns the namespaces of all entries, sorted.
func (c *Catalog) Namespaces() []string {
	return slices.Sorted(maps.Keys(c.spaces))
}

// Upstreams returns the upstreams that have been listed, by priority, also those
// that list nothing.
func (c *Catalog) Upstreams() []string {
	upstreams := make([]string, len(c.segments))
	for i, s := range c.segments {
		upstreams[i] = s.upstream
	}
	return upstreams
}

// Hash returns a hash of the content: the same entries of the same upstreams,
// byte for byte, have the same hash, in whatever order they came.
func (c *Catalog) Hash() string {
	c.hashOnce.Do(func() {
		h := sha256.New()
		for _, namespace := range c.Namespaces() {
			h.Write(c.spaces[namespace].digest[:])
		}
		c.hash = hex.EncodeToString(h.Sum(nil))
	})
	return c.hash
}

// Findings returns what is wrong with all entries now, upstream by upstream.
func (c *Catalog) Findings() []Finding {
	var findings []Finding
	for _, s := range c.segments {
		findings = append(findings, s.findings...)
	}
	for _, namespace := range c.Namespaces() {
		for _, f := range c.spaces[namespace].conflicts {
			findings = append(findings, f.Finding)
		}
	}
	return findings
}

func compareEntries(a, b *Entry) int { return strings.Compare(a.ID, b.ID) }

// space is one namespace: the entries of all its upstreams, who wins where two
// have the same id, and the paths. It never changes.
type space struct {
	segments  []*segment // by priority
	entries   []*Entry   // sorted by id
	index     map[string]*node
	trees     map[Kind]*tree // by surface
	conflicts []conflict
	digest    [sha256.Size]byte
}

type conflict struct {
	Finding
	winner string
}

func buildSpace(namespace string, segments []*segment) *space {
	s := &space{segments: segments, trees: map[Kind]*tree{}}
	if len(segments) == 1 {
		s.entries = slices.Clone(segments[0].namespaces[namespace])
	} else {
		s.merge(namespace)
	}
	slices.SortFunc(s.entries, compareEntries)
	s.index = make(map[string]*node, len(s.entries))
	surfaces := map[Kind][]*Entry{}
	h := sha256.New()
	for _, e := range s.entries {
		surfaces[e.Kind.surface()] = append(surfaces[e.Kind.surface()], e)
		fmt.Fprintf(h, "%s\n%s\n%q\n%x\n", e.Kind, e.ID, e.Upstream, e.digest)
	}
	h.Sum(s.digest[:0])
	for kind, entries := range surfaces {
		t := buildTree(namespace, kind, entries)
		s.trees[kind] = t
		t.root.collect(s.index)
	}
	return s
}

// collect puts the leaves below n into an index by id.
func (n *node) collect(index map[string]*node) {
	if n.entry != nil {
		index[n.entry.ID] = n
	}
	for _, child := range n.children {
		child.collect(index)
	}
}

// merge fills in the entries of several upstreams. Of tools with one id the
// first stays (gateway-surface §4.6); resources and prompts with one id are
// different things and get a "~N" (§9.3).
func (s *space) merge(namespace string) {
	taken := map[string]*Entry{}
	for _, seg := range s.segments {
		for _, e := range seg.namespaces[namespace] {
			first := taken[e.ID]
			switch {
			case first == nil:
			case e.Kind == KindTool:
				s.conflicts = append(s.conflicts, conflict{Finding{
					Kind: FoundConflict, Upstream: e.Upstream, Name: e.RawName, ID: e.ID,
					Message: fmt.Sprintf("two servers offer the tool %q: %q and %q. Give one a namespace: mcpServers.%s.namespace",
						e.RawName, first.Upstream, e.Upstream, e.Upstream),
				}, first.Upstream})
				continue
			default:
				e = e.renamed(suffixed(e.ID, func(id string) bool { return taken[id] != nil }))
			}
			taken[e.ID] = e
			s.entries = append(s.entries, e)
		}
	}
}

// suffixed returns the first of id~2, id~3, … that is free. Such a key is no
// canonical id and is refused by ParseID.
func suffixed(id string, taken func(string) bool) string {
	// A key that already has a suffix is numbered on from its canonical id.
	if i := strings.LastIndexByte(id, '~'); i >= 0 {
		id = id[:i]
	}
	for n := 2; ; n++ {
		if key := fmt.Sprintf("%s~%d", id, n); !taken(key) {
			return key
		}
	}
}
