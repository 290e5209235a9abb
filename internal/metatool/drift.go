package metatool

import (
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
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
	first, last map[primitive.Key]*catalog.Entry // last is nil after a restart, until the first listing
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
		entries := map[primitive.Key]*catalog.Entry{}
		for _, e := range c.Of(upstream) {
			// If the upstream lists two entries of one name, the first counts.
			if key := e.Key(); entries[key] == nil {
				entries[key] = e
			}
		}
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
// listed for the first time.
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
		u.first = map[primitive.Key]*catalog.Entry{}
		for _, e := range c.Entries() {
			if key := e.Key(); u.first[key] == nil {
				u.first[key] = e
			}
		}
	}
}

func differences(before, after map[primitive.Key]*catalog.Entry) []catalog.Change {
	var changes []catalog.Change
	add := func(before, after *catalog.Entry) {
		if c, ok := catalog.Compare(before, after); ok {
			changes = append(changes, c)
		}
	}
	for key, e := range after {
		add(before[key], e)
	}
	for key, e := range before {
		if after[key] == nil {
			add(e, nil)
		}
	}
	return changes
}
