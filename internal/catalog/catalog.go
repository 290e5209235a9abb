package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Catalog is an immutable snapshot of everything that can be called, safe for concurrent use. New
// returns an empty one.
type Catalog struct {
	limits   Limits
	compiled *compiledSchemas // of all catalogs that derive from the first
	segments []*segment       // by priority
	added    int              // upstreams ever added, for segment.seq
	spaces   map[string]*space
	pasts    map[string]*past // by namespace, including namespaces without entries
	held     int              // ids in pasts
	kinds    tally
	whole    *Catalog // of which this is a part; nil if it is none
	base     *Catalog // to which Join has added; nil if it is none

	mark    *mark    // of this catalog
	from    *mark    // of the one that it was derived from by one change; nil: none
	touched []string // namespaces of that change

	order       atomic.Pointer[[]string] // the namespaces, sorted; nil: not sorted yet
	entriesOnce sync.Once
	entries     []*Entry
	hashOnce    sync.Once
	hash        string
	namesOnce   sync.Once
	nameIndex   *nameIndex
}

// mark identifies a catalog without keeping it.
type mark struct{ _ byte }

// New returns an empty catalog with limits on schemas.
func New(limits Limits) *Catalog {
	return &Catalog{limits: limits.withDefaults(), compiled: new(compiledSchemas), spaces: map[string]*space{}, pasts: map[string]*past{}, mark: new(mark)}
}

// With returns a catalog in which the entries of one upstream come from a listing, and a report of
// the problems in the listing. It shares all other entries with c. A bad definition becomes a
// finding and does not affect others. With does not retain the listing.
func (c *Catalog) With(l primitive.Listing) (*Catalog, Report) { return c.with(l, nil) }

// with is With. own reads the definitions of a listing for one principal; nil: the listing is for all
// callers.
func (c *Catalog) with(l primitive.Listing, own *reading) (*Catalog, Report) {
	seg := buildSegment(&l, own, c.limits, c.compiled)
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
	if why := next.refusal(seg); why != nil && c.limits.Strict {
		return c, c.refused(&l, seg, why)
	}
	report.add(seg.findings...)
	report.Omitted += seg.omitted
	for namespace := range seg.namespaces {
		for _, e := range next.spaces[namespace].entries {
			if e.Upstream != l.Upstream {
				continue
			}
			report.count(e)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(seg.namespaces)) {
		for _, d := range next.spaces[namespace].disputes {
			if d.concerns(l.Upstream) {
				report.add(d.Finding)
			}
		}
	}
	if seg.primitives {
		report.add(next.sharedNames(l.Upstream)...)
	}
	return next, report
}

// refusal returns the finding for which a strict catalog refuses the listing of a segment, or nil.
func (c *Catalog) refusal(seg *segment) *Finding {
	if seg.refused != nil {
		return seg.refused
	}
	for _, namespace := range slices.Sorted(maps.Keys(seg.namespaces)) {
		for _, d := range c.spaces[namespace].disputes {
			if d.refuses && d.concerns(seg.upstream) {
				return &d.Finding
			}
		}
	}
	return nil
}

// refused returns the report of a listing that is not taken.
func (c *Catalog) refused(l *primitive.Listing, seg *segment, why *Finding) Report {
	report := Report{Upstream: l.Upstream}
	for _, e := range c.Of(l.Upstream) {
		report.count(e)
	}
	report.add(Finding{Kind: FoundRefused, Upstream: l.Upstream, Name: why.Name, ID: why.ID,
		Message: fmt.Sprintf("the list of server %q is refused, because strict is true, and what it offered before stays: %s", l.Upstream, why.Message)})
	report.add(seg.findings...)
	report.Omitted += seg.omitted
	return report
}

// Without returns a catalog without the entries of one upstream. Entries of other upstreams that
// these had hidden reappear, unless their ids would then name another tool.
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

// derive returns a copy of c that the caller may change before publishing it.
func (c *Catalog) derive() *Catalog {
	next := &Catalog{
		limits: c.limits, compiled: c.compiled, segments: slices.Clone(c.segments), added: c.added,
		spaces: maps.Clone(c.spaces), pasts: maps.Clone(c.pasts), held: c.held, kinds: c.kinds,
		mark: new(mark), from: c.mark,
	}
	next.order.Store(c.order.Load())
	return next
}

// replace rebuilds the namespaces of the old and the new segment of an upstream.
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
		c.touched = append(c.touched, namespace)
		var members []*segment
		if before := c.spaces[namespace]; before != nil {
			c.kinds.add(before.kinds, -1)
			members = slices.DeleteFunc(slices.Clone(before.segments), func(s *segment) bool { return s == old })
		}
		if seg != nil && seg.namespaces[namespace] != nil {
			at, _ := slices.BinarySearchFunc(members, seg, compareSegments)
			members = slices.Insert(members, at, seg)
		}
		c.put(namespace, members)
	}
}

// put replaces the space of a namespace and records the ids of removed entries.
func (c *Catalog) put(namespace string, members []*segment) {
	before, was := c.spaces[namespace], c.pasts[namespace]
	if was == nil {
		was = noPast
	}
	a := &assigner{before: before, past: was, most: c.limits.most()}
	var now *space
	if len(members) > 0 {
		now = buildSpace(namespace, members, a)
		c.spaces[namespace] = now
		c.kinds.add(now.kinds, 1)
	} else {
		delete(c.spaces, namespace)
	}
	if known := c.order.Load(); known != nil && (before == nil) != (now == nil) {
		order := slices.Clone(*known) // shared with earlier catalogs
		if at, there := slices.BinarySearch(order, namespace); now == nil && there {
			order = slices.Delete(order, at, at+1)
		} else if now != nil && !there {
			order = slices.Insert(order, at, namespace)
		}
		c.order.Store(&order)
	}
	if next := was.after(before, now, a.disputed, maxPastTotal-c.held); next != was {
		c.pasts[namespace] = next
		c.held += len(next.held) - len(was.held)
	}
}

// Lookup returns the entry with exactly this id. An id that named one thing in c, or in a catalog
// that c was derived from, never names another.
func (c *Catalog) Lookup(id string) (*Entry, bool) {
	namespace, ok := namespaceOf(id)
	if !ok {
		return nil, false
	}
	s := c.spaces[namespace]
	if s == nil {
		return nil, false
	}
	e := s.lookup(id)
	return e, e != nil
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
	return s.leaf(id)
}

// Len returns the number of entries.
func (c *Catalog) Len() int { return c.kinds.all() }

// Has reports whether there is an entry of a kind.
func (c *Catalog) Has(kind primitive.Kind) bool { return c.kinds[ordinal(kind)] > 0 }

// Kinds returns the number of entries of each kind.
func (c *Catalog) Kinds() map[primitive.Kind]int {
	n := map[primitive.Kind]int{}
	for i, kind := range kinds {
		n[kind] = c.kinds[i]
	}
	return n
}

// tally is a number of entries by kind, in the order of kinds.
type tally [4]int

var kinds = [4]primitive.Kind{primitive.KindTool, primitive.KindResource, primitive.KindTemplate, primitive.KindPrompt}

// ordinal returns the place of a kind in a tally.
func ordinal(kind primitive.Kind) int { return slices.Index(kinds[:], kind) }

func tallyOf(entries []*Entry) (t tally) {
	for _, e := range entries {
		t[ordinal(e.Kind)]++
	}
	return t
}

// add adds another tally so many times.
func (t *tally) add(other tally, times int) {
	for i, n := range other {
		t[i] += n * times
	}
}

// all returns the number of entries.
func (t *tally) all() int {
	sum := 0
	for _, n := range t {
		sum += n
	}
	return sum
}

// onlyTools reports whether all entries are tools.
func (t *tally) onlyTools() bool { return t.all() == t[0] }

// Content returns a hash of the definitions and ids on a surface other than tools: of resources with their
// templates, or of prompts. It distinguishes two catalogs of this process. Catalogs share the hashes of the
// namespaces that they share, so it costs a step for each namespace.
func (c *Catalog) Content(surface primitive.Kind) uint64 {
	sum := uint64(0)
	if c.kinds.onlyTools() {
		return sum
	}
	for _, s := range c.spaces {
		if !s.kinds.onlyTools() {
			s.contentsOnce.Do(s.hashContents)
			sum += s.contents[surface]
		}
	}
	return sum
}

var contentSeed = maphash.MakeSeed()

func (s *space) hashContents() {
	s.contents = map[primitive.Kind]uint64{}
	for _, e := range s.entries {
		if e.Kind != primitive.KindTool {
			// Entries are sorted by id, and the order shows in the hash. So does the id, by which an entry is
			// listed that shares its name with another.
			one := maphash.Bytes(contentSeed, e.Raw)*31 + maphash.String(contentSeed, e.ID)
			s.contents[e.Kind.Surface()] = s.contents[e.Kind.Surface()]*31 + one
		}
	}
}

// Entries returns all entries sorted by id. The slice is shared and must not be
// changed.
func (c *Catalog) Entries() []*Entry {
	c.entriesOnce.Do(func() {
		c.entries = make([]*Entry, 0, c.Len())
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
			space := c.spaces[namespace]
			if space == nil {
				continue // of a part of a catalog
			}
			for _, e := range space.entries {
				if e.Upstream == upstream {
					entries = append(entries, e)
				}
			}
		}
	}
	slices.SortFunc(entries, compareEntries)
	return entries
}

// Changed returns the upstreams with entries in the namespaces that differ between old and c, one of
// which is derived from the other. Namespaces that a change does not affect are shared, so the cost
// is proportional to the change, with a comparison for each namespace unless c is old with one
// change.
func (c *Catalog) Changed(old *Catalog) []string {
	found := map[string]bool{}
	if c.from != nil && c.from == old.mark {
		for _, namespace := range c.touched {
			for _, s := range []*space{old.spaces[namespace], c.spaces[namespace]} {
				if s == nil {
					continue
				}
				for _, e := range s.entries {
					found[e.Upstream] = true
				}
			}
		}
		return slices.Sorted(maps.Keys(found))
	}
	compare := func(spaces, others map[string]*space) {
		for namespace, s := range spaces {
			if others[namespace] != s {
				for _, e := range s.entries {
					found[e.Upstream] = true
				}
			}
		}
	}
	compare(c.spaces, old.spaces)
	compare(old.spaces, c.spaces)
	return slices.Sorted(maps.Keys(found))
}

// Namespaces returns the namespaces of all entries, sorted. The slice is shared and must not be
// changed.
func (c *Catalog) Namespaces() []string {
	if known := c.order.Load(); known != nil {
		return *known
	}
	order := slices.Sorted(maps.Keys(c.spaces))
	c.order.Store(&order)
	return order
}

// Upstreams returns all upstreams that have been listed, by priority, including those without
// entries.
func (c *Catalog) Upstreams() []string {
	upstreams := make([]string, len(c.segments))
	for i, s := range c.segments {
		upstreams[i] = s.upstream
	}
	return upstreams
}

// Hash returns a hash of the content. It does not depend on the order in which upstreams were
// added.
func (c *Catalog) Hash() string {
	if c.whole != nil {
		return c.whole.Hash()
	}
	if c.base != nil {
		return c.base.Hash()
	}
	c.hashOnce.Do(func() {
		h := sha256.New()
		for _, namespace := range c.Namespaces() {
			h.Write(c.spaces[namespace].digest[:])
		}
		c.hash = hex.EncodeToString(h.Sum(nil))
	})
	return c.hash
}

// Tag returns a text that two catalogs with the same entries have in common; "" if the catalog has
// entries of single callers, of which the text would say nothing.
func (c *Catalog) Tag() string {
	if c.base != nil || c.whole != nil && c.whole.base != nil {
		return ""
	}
	return fmt.Sprintf("%s %d", c.Hash(), c.Len())
}

// Findings returns the problems of all current entries, upstream by upstream.
func (c *Catalog) Findings() []Finding {
	var findings []Finding
	for _, s := range c.segments {
		findings = append(findings, s.findings...)
	}
	for _, namespace := range c.Namespaces() {
		for _, d := range c.spaces[namespace].disputes {
			findings = append(findings, d.Finding)
		}
	}
	return append(findings, c.sharedNames("")...)
}

// Partial returns the upstreams with omitted entries or cut texts; findings give the reasons.
func (c *Catalog) Partial() []string {
	var upstreams []string
	for _, s := range c.segments {
		if s.partial {
			upstreams = append(upstreams, s.upstream)
		}
	}
	return upstreams
}

func compareEntries(a, b *Entry) int { return strings.Compare(a.ID, b.ID) }

// space is one namespace: the entries of all its upstreams, their ids and their paths. It is
// immutable. Use tree, leaf and lookup in place of trees and index.
type space struct {
	segments []*segment // by priority
	entries  []*Entry   // sorted by id
	kinds    tally
	index    map[string]*node
	trees    map[primitive.Kind]*tree // by surface
	disputes []dispute
	most     int // see Limits.most
	digest   [sha256.Size]byte

	contentsOnce sync.Once
	contents     map[primitive.Kind]uint64 // by surface; see Content

	// later is set in a part of a space and in one of a single principal, whose index and trees are made
	// when they are first used; nil: they are there.
	later *later
}

func buildSpace(namespace string, segments []*segment, a *assigner) *space {
	s := &space{segments: segments, most: a.most}
	var hashing sync.WaitGroup
	hashing.Go(func() { s.digest = digestOf(namespace, segments) })
	defer hashing.Wait()
	s.entries = a.assign(namespace, segments)
	s.disputes = a.disputes
	slices.SortFunc(s.entries, compareEntries)
	s.kinds = tallyOf(s.entries)
	if len(segments) == 1 && segments[0].reads != nil {
		s.later = &later{namespace: namespace} // most principals never ask for paths
	} else {
		s.plant(namespace)
	}
	return s
}

// digestOf returns a digest of a namespace's listings. It uses only the ids that follow from the
// definitions, so it does not depend on earlier catalogs.
func digestOf(namespace string, segments []*segment) (sum [sha256.Size]byte) {
	var all []*Entry
	for _, seg := range segments {
		all = append(all, seg.namespaces[namespace]...)
	}
	slices.SortFunc(all, func(a, b *Entry) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Upstream, b.Upstream), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.key(), b.key()))
	})
	h := sha256.New()
	var abouts []string
	for _, seg := range segments {
		if seg.about != "" {
			abouts = append(abouts, fmt.Sprintf("about %q %q\n", seg.upstream, seg.about))
		}
	}
	slices.Sort(abouts)
	for _, line := range abouts {
		_, _ = h.Write([]byte(line)) // a hash does not fail
	}
	var line []byte
	for _, e := range all {
		line = append(append(line[:0], e.Kind...), '\n')
		line = append(append(line, e.ID...), '\n')
		line = append(strconv.AppendQuote(line, e.Upstream), '\n')
		line = append(hex.AppendEncode(line, e.digest[:]), '\n')
		_, _ = h.Write(line)
	}
	h.Sum(sum[:0])
	return sum
}

// collect adds the leaves below n to an index by id.
func (n *node) collect(index map[string]*node) {
	if n.entry != nil {
		index[n.entry.ID] = n
	}
	for _, child := range n.children {
		child.collect(index)
	}
}
