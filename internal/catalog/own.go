package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// A principal's catalog is composed of the entries that all callers share and of the entries that
// servers list only for that principal:
//
//	Listing ─▶ Reader.Read ─▶ catalog of that listing ─┐
//	               shared catalog ─▶ Join ◀────────────┘ ─▶ catalog of the principal
//
// Nothing in the result comes from the listing of another principal. So an id depends on the shared
// entries and on the principal's own listings, and never on listings of other principals.

// Reader reads listings for single principals. Equal definitions of one server become one Entry as
// long as a catalog uses it, so that many principals with similar lists share the memory. It is safe
// for concurrent use.
type Reader struct {
	limits   Limits
	compiled *compiledSchemas

	mu    sync.Mutex // guards below
	known map[ownKey]weak.Pointer[ingest]
	sweep int // the size of known at which dead pointers are removed
}

// ownKey is a hash of a definition and of all that becomes part of its entry.
type ownKey [sha256.Size]byte

// Reader returns a Reader with the limits of c, which also bounds its compiled schemas.
func (c *Catalog) Reader() *Reader {
	return &Reader{limits: c.limits, compiled: c.compiled, known: map[ownKey]weak.Pointer[ingest]{}, sweep: 1 << 10}
}

// Read returns a catalog of one listing, for Join. It does not change the listing, and retains
// nothing of it.
func (r *Reader) Read(l *primitive.Listing) *Catalog {
	c, _ := New(r.limits).with(*l, &reading{r, originOf(l, r.limits.overridesOf(l.Upstream))})
	return c
}

// reading is the reading of one listing.
type reading struct {
	*Reader
	origin ownKey
}

// entry returns the result of readEntry for a definition of the listing.
func (r *reading) entry(raw json.RawMessage, kind primitive.Kind, l *primitive.Listing) *ingest {
	h := sha256.New()
	_, _ = h.Write(r.origin[:]) // a hash does not fail
	_, _ = h.Write([]byte(kind + "\x00"))
	_, _ = h.Write(raw)
	var key ownKey
	h.Sum(key[:0])
	r.mu.Lock()
	if in := r.known[key].Value(); in != nil {
		r.mu.Unlock()
		return in
	}
	r.mu.Unlock()
	in := new(ingest)
	*in = readEntry(raw, kind, l, r.limits, r.compiled)
	if in.entry != nil {
		in.entry.Own = true
		in.entry.lengthen()
		for i := range in.findings {
			in.findings[i].ID = in.entry.ID
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.known[key].Value(); other != nil {
		return other
	}
	r.known[key] = weak.Make(in)
	if len(r.known) >= r.sweep {
		for key, in := range r.known {
			if in.Value() == nil {
				delete(r.known, key)
			}
		}
		r.sweep = max(1<<10, 2*len(r.known))
	}
	return in
}

// originOf returns a hash of the fields that the entries of a listing have in addition to their
// definitions, and of what the operator changes of them.
func originOf(l *primitive.Listing, overrides primitive.Overrides) (key ownKey) {
	h := sha256.New()
	if len(overrides) > 0 {
		_ = json.NewEncoder(h).Encode(overrides) // a hash does not fail
	}
	fmt.Fprintf(h, "%q %q %q", l.Upstream, l.Namespace, l.Tags)
	for _, at := range slices.SortedFunc(maps.Keys(l.Notes), func(a, b primitive.Key) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	}) {
		fmt.Fprintf(h, " %q %q", at, l.Notes[at])
	}
	h.Sum(key[:0])
	return key
}

// lengthen gives a tool with a version its hash as well, if its name does not follow from its id. A
// shared catalog remembers which tool an id has named. A catalog of a principal has no memory, so an
// id in it must name the same tool whatever else is listed.
func (e *Entry) lengthen() {
	if e.Kind != primitive.KindTool || e.Version == "" || e.Name == e.RawName {
		return
	}
	e.ID = ToolID{e.Namespace, e.Name, e.Version, e.Hash8}.join()
	e.buildCard()
}

// Join returns a catalog of the entries of c and of catalogs that a Reader has made. They replace
// entries of c of the same upstreams. It shares all entries whose ids stay the same, and has the Hash
// of c. Use the result to look things up: With and Without must not be called on it.
func (c *Catalog) Join(owns ...*Catalog) *Catalog {
	next := c.derive()
	next.base = c.Base()
	for _, own := range owns {
		for _, seg := range own.segments {
			next.join(own, seg)
		}
	}
	return next
}

// join adds the segment of another catalog.
func (c *Catalog) join(own *Catalog, seg *segment) {
	if i := slices.IndexFunc(c.segments, func(s *segment) bool { return s.upstream == seg.upstream }); i >= 0 {
		old := c.segments[i]
		c.segments = slices.Delete(c.segments, i, i+1)
		c.replace(old, nil)
	}
	placed := *seg
	c.added++
	placed.seq = c.added
	at, _ := slices.BinarySearchFunc(c.segments, &placed, compareSegments)
	c.segments = slices.Insert(c.segments, at, &placed)
	for namespace := range seg.namespaces {
		if c.spaces[namespace] == nil && c.pasts[namespace] == nil {
			c.spaces[namespace] = own.spaces[namespace]
			c.touched = append(c.touched, namespace)
			c.order.Store(nil)
			c.kinds.add(own.spaces[namespace].kinds, 1)
			continue
		}
		c.touched = append(c.touched, namespace)
		var members []*segment
		if before := c.spaces[namespace]; before != nil {
			c.kinds.add(before.kinds, -1)
			members = slices.Clone(before.segments)
		}
		at, _ := slices.BinarySearchFunc(members, &placed, compareSegments)
		c.put(namespace, slices.Insert(members, at, &placed))
	}
}

// Base returns the catalog of the entries that all callers share: of a catalog that Join has made,
// and of a part of one, the catalog that was joined; otherwise c.Whole().
func (c *Catalog) Base() *Catalog {
	c = c.Whole()
	if c == nil || c.base == nil {
		return c
	}
	return c.base
}
