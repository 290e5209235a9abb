package metatool

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
)

// maxDrift bounds the number of upstreams whose first definitions are kept.
const maxDrift = 1024

// drift keeps the first and the last definitions of each upstream. An upstream that returns after
// an absence is compared with its earlier definitions, because an attacker may use the absence to
// change descriptions.
type drift struct {
	mu   sync.Mutex // guards below
	of   *catalog.Catalog
	seen map[string]*drifting // by upstream
}

type drifting struct {
	first, last definitions // last is nil after a restart, until the first listing
}

// definitions are the entries of an upstream, sorted by what it calls them. A map of them takes ten times as much memory.
type definitions []*catalog.Entry

// definitionsOf sorts entries. If the upstream lists two of one name, the first counts.
func definitionsOf(entries []*catalog.Entry) definitions {
	l := make(definitions, len(entries))
	copy(l, entries)
	slices.SortStableFunc(l, byKey)
	return slices.Clip(slices.CompactFunc(l, func(a, b *catalog.Entry) bool { return byKey(a, b) == 0 }))
}

func byKey(a, b *catalog.Entry) int {
	x, y := a.Key(), b.Key()
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
}

// observe compares a catalog with the previous one.
func (d *drift) observe(c *catalog.Catalog) []catalog.Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == c {
		return nil
	}
	if d.of == nil {
		d.of = catalog.New(catalog.Limits{})
	}
	if d.seen == nil {
		d.seen = map[string]*drifting{}
	}
	var changes []catalog.Change
	for _, upstream := range d.touched(c) {
		entries := definitionsOf(c.Of(upstream))
		u := d.seen[upstream]
		switch {
		case u != nil && u.last == nil: // the first of this process
			u.last = entries
		case u != nil:
			changes = append(changes, differences(u.last, entries)...)
			u.last = entries
		case len(d.seen) < maxDrift:
			d.seen[upstream] = &drifting{entries, entries}
		}
	}
	d.of = c
	catalog.SortChanges(changes)
	return changes
}

// touched returns the listed upstreams that may differ from the previous catalog, and those that are
// definitions for the first time.
func (d *drift) touched(c *catalog.Catalog) []string {
	changed := c.Changed(d.of)
	return slices.DeleteFunc(c.Upstreams(), func(upstream string) bool {
		if _, found := slices.BinarySearch(changed, upstream); found {
			return false
		}
		if u := d.seen[upstream]; u != nil {
			return u.last != nil
		}
		return len(d.seen) >= maxDrift
	})
}

// changes compares the first definitions with the last.
func (d *drift) changes() []catalog.Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	changes := []catalog.Change{}
	for _, u := range d.seen {
		if u.last == nil {
			continue // it has not been listed since the restart
		}
		changes = append(changes, differences(u.first, u.last)...)
	}
	catalog.SortChanges(changes)
	return changes
}

// restore says what upstreams listed first, in an earlier process or at another node.
func (d *drift) restore(first map[string]*catalog.Catalog) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[string]*drifting{}
	}
	for upstream, c := range first {
		u := d.seen[upstream]
		if u == nil {
			if len(d.seen) >= maxDrift {
				return
			}
			u = &drifting{}
			d.seen[upstream] = u
		}
		u.first = definitionsOf(c.Entries())
	}
}

func differences(before, after definitions) []catalog.Change {
	var changes []catalog.Change
	add := func(before, after *catalog.Entry) {
		if c, ok := catalog.Compare(before, after); ok {
			changes = append(changes, c)
		}
	}
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(before) == 0 || len(after) > 0 && byKey(after[0], before[0]) < 0:
			add(nil, after[0])
			after = after[1:]
		case len(after) == 0 || byKey(before[0], after[0]) < 0:
			add(before[0], nil)
			before = before[1:]
		default:
			add(before[0], after[0])
			before, after = before[1:], after[1:]
		}
	}
	return changes
}
