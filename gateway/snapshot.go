package gateway

import (
	"slices"

	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/search"
)

// Snapshot is everything that can be called at one moment, and how it is found.
// It never changes: a refresh makes another one, and whoever holds the current
// one swaps a pointer, so a call sees either the old or the new one whole
// (gateway-surface §4.6).
type Snapshot struct {
	Catalog *catalog.Catalog
	Index   *search.Index // of the catalog's tools
}

// NewSnapshot returns an empty one that holds schemas to limits.
func NewSnapshot(limits catalog.Limits) *Snapshot {
	return &Snapshot{Catalog: catalog.New(limits), Index: search.New(search.Options{})}
}

// With returns a snapshot in which what l lists is all that its upstream
// offers, and a report of what is wrong with it. Call Index.Prepare on the last
// of several before handing it out.
func (s *Snapshot) With(l catalog.Listing) (*Snapshot, catalog.Report) {
	next, report := s.Catalog.With(l)
	return s.reindex(next, l.Upstream), report
}

// Without returns a snapshot without an upstream.
func (s *Snapshot) Without(upstream string) *Snapshot {
	next := s.Catalog.Without(upstream)
	if next == s.Catalog {
		return s
	}
	return s.reindex(next, upstream)
}

// reindex returns the snapshot of next, in which one upstream changed. Another
// upstream changes with it where the two offer the same id: what one hid of the
// other comes or goes.
func (s *Snapshot) reindex(next *catalog.Catalog, changed string) *Snapshot {
	index := s.Index.With(changed, docs(next.Of(changed)))
	seen := map[string]bool{changed: true}
	for _, entries := range [][]*catalog.Entry{s.Catalog.Entries(), next.Entries()} {
		for _, e := range entries {
			if seen[e.Upstream] {
				continue
			}
			seen[e.Upstream] = true
			if now := next.Of(e.Upstream); !slices.Equal(s.Catalog.Of(e.Upstream), now) {
				index = index.With(e.Upstream, docs(now))
			}
		}
	}
	return &Snapshot{Catalog: next, Index: index}
}

// docs are what is searched of entries: tools only, as resources and prompts
// are browsed apart (gateway-surface §9.4).
func docs(entries []*catalog.Entry) []search.Doc {
	list := make([]search.Doc, 0, len(entries))
	for _, e := range entries {
		if e.Kind != catalog.KindTool {
			continue
		}
		d := search.Doc{ID: e.ID, Server: e.Namespace, Name: e.RawName, Title: e.Title, Description: e.Description, Tags: e.Tags}
		for _, p := range e.Params() {
			d.Params = append(d.Params, search.Param{Name: p.Name, Description: p.Description})
		}
		list = append(list, d)
	}
	return list
}
