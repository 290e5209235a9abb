package metatool

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Snapshot is an immutable view of all callable entries, with their indexes. A refresh creates
// another Snapshot and swaps a pointer, so a call sees either the old or the new one whole
// (spec/gateway §4.6).
type Snapshot struct {
	Catalog *catalog.Catalog
	Index   *search.Index // of the catalog's tools
	// Resources and Prompts are separate indexes, so that cards of two kinds never mix
	// (spec/gateway §6.4). Templates belong to the resources.
	Resources, Prompts *search.Index

	// later makes the indexes of a snapshot for single callers, when they are first used; nil: they are
	// the fields above.
	later *laterIndexes

	templates *templates
	keys      *keys

	// readableURI reports whether a URI of the server of an entry exists for the callers that the
	// snapshot is made for; nil: all do.
	readableURI func(e *catalog.Entry, uri string) bool
}

// gives reports whether a URI of the server of an entry exists for the callers that the snapshot is
// made for.
func (s *Snapshot) gives(e *catalog.Entry, uri string) bool {
	return s.readableURI == nil || s.readableURI(e, uri)
}

// NewSnapshot returns an empty snapshot that applies limits to schemas.
func NewSnapshot(limits catalog.Limits) *Snapshot {
	return NewSnapshotWith(limits, search.Options{})
}

// NewSnapshotWith is NewSnapshot with the options of the ranking.
func NewSnapshotWith(limits catalog.Limits, o search.Options) *Snapshot {
	empty := search.New(o)
	return &Snapshot{Catalog: catalog.New(limits), Index: empty, Resources: empty, Prompts: empty, templates: new(templates), keys: new(keys)}
}

// Pending reports whether Prepare would index thousands of entries.
func (s *Snapshot) Pending() bool {
	return s.Index.Pending() || s.Resources.Pending() || s.Prompts.Pending()
}

// Prepare computes data that the first search would otherwise compute. Call it before sharing the
// snapshot, or concurrently with its use.
func (s *Snapshot) Prepare() {
	s.Index.Prepare()
	s.Resources.Prepare()
	s.Prompts.Prepare()
}

// Embed returns a snapshot whose entries have vectors if the ranking has an Embedder. It returns s
// itself if there is nothing to do. It takes as long as the Embedder. With an error it returns the
// vectors computed so far, which Adopt can use.
func (s *Snapshot) Embed(ctx context.Context) (*Snapshot, error) {
	out := *s
	for _, ix := range []**search.Index{&out.Index, &out.Resources, &out.Prompts} {
		next, err := (*ix).Embed(ctx)
		*ix = next
		if err != nil {
			return &out, err
		}
	}
	if out.Index == s.Index && out.Resources == s.Resources && out.Prompts == s.Prompts {
		return s, nil
	}
	return &out, nil
}

// Adopt returns s with the vectors of another snapshot for equal entries.
func (s *Snapshot) Adopt(from *Snapshot) *Snapshot {
	out := *s
	out.Index, out.Resources, out.Prompts = s.Index.Adopt(from.Index), s.Resources.Adopt(from.Resources), s.Prompts.Adopt(from.Prompts)
	return &out
}

// index returns the index of the entries of a kind.
func (s *Snapshot) index(kind primitive.Kind) *search.Index {
	ix := s.indexes()
	switch kind {
	case primitive.KindResource:
		return ix.resources
	case primitive.KindPrompt:
		return ix.prompts
	}
	return ix.tools
}

// indexes are the indexes of a snapshot.
type indexes struct{ tools, resources, prompts *search.Index }

// indexes returns the indexes, and makes them if they are still to be made.
func (s *Snapshot) indexes() indexes {
	if s.later != nil {
		return s.later.get()
	}
	return indexes{s.Index, s.Resources, s.Prompts}
}

// laterIndexes are indexes that are made when a search first needs them. Most callers list and call
// tools, and never search.
type laterIndexes struct {
	has struct{ resources, prompts bool }

	once sync.Once
	make func() indexes
	made indexes
}

// makeLater returns the indexes that a function makes of the entries of a catalog.
func makeLater(of *catalog.Catalog, make func() indexes) *laterIndexes {
	l := &laterIndexes{make: make}
	l.has.resources, l.has.prompts = of.Has(primitive.KindResource) || of.Has(primitive.KindTemplate), of.Has(primitive.KindPrompt)
	return l
}

func (l *laterIndexes) get() indexes {
	l.once.Do(func() { l.made, l.make = l.make(), nil })
	return l.made
}

// hasResources and hasPrompts report whether any upstream offers the primitive.
func (s *Snapshot) hasResources() bool {
	if s.later != nil {
		return s.later.has.resources
	}
	return s.Resources.Len() > 0
}

func (s *Snapshot) hasPrompts() bool {
	if s.later != nil {
		return s.later.has.prompts
	}
	return s.Prompts.Len() > 0
}

// With returns a snapshot in which l replaces the entries of its upstream, and a report of the
// faults in l. Call Prepare on the last of several snapshots before sharing it.
func (s *Snapshot) With(l primitive.Listing) (*Snapshot, catalog.Report) {
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

// reindex returns the snapshot of next, in which one upstream changed. If another upstream offers
// the same id, its entries change as well, because one entry hides the other.
func (s *Snapshot) reindex(next *catalog.Catalog, changed string) *Snapshot {
	out := &Snapshot{Catalog: next, Index: s.Index, Resources: s.Resources, Prompts: s.Prompts, templates: new(templates), keys: new(keys)}
	out.put(changed)
	for _, upstream := range next.Changed(s.Catalog) {
		if upstream != changed && !slices.Equal(s.Catalog.Of(upstream), next.Of(upstream)) {
			out.put(upstream)
		}
	}
	return out
}

// put indexes the entries of one upstream, each kind separately.
func (s *Snapshot) put(upstream string) {
	var tools, resources, prompts []*catalog.Entry
	for _, e := range s.Catalog.Of(upstream) {
		switch e.Kind {
		case primitive.KindTool:
			tools = append(tools, e)
		case primitive.KindPrompt:
			prompts = append(prompts, e)
		default:
			resources = append(resources, e)
		}
	}
	title, about := s.Catalog.About(upstream)
	with := func(ix *search.Index, entries []*catalog.Entry) *search.Index {
		ids := make([]string, len(entries))
		for i, e := range entries {
			ids[i] = e.ID
		}
		return ix.WithLater(upstream, ids, func() []search.Doc { return docsOf(entries, title, about) })
	}
	s.Index, s.Resources, s.Prompts = with(s.Index, tools), with(s.Resources, resources), with(s.Prompts, prompts)
}

// docsOf returns the searchable texts of entries of a server, and what the server says of itself.
func docsOf(entries []*catalog.Entry, title, about string) []search.Doc {
	docs := make([]search.Doc, len(entries))
	for i, e := range entries {
		docs[i] = docOf(e)
		docs[i].ServerTitle, docs[i].About = title, about
	}
	return docs
}

// docOf returns the searchable text of an entry. A resource's URI counts as much as its name.
func docOf(e *catalog.Entry) search.Doc {
	d := search.Doc{ID: e.ID, Server: e.Namespace, Name: e.RawName, Title: visible.Text(e.Title), Description: visible.Text(e.Description), Tags: e.Tags}
	if e.URI != "" {
		d.Title = strings.TrimSpace(d.Title + " " + e.URI)
	}
	for _, p := range e.Params() {
		param := search.Param{Name: p.Name, Description: visible.Text(p.Description)}
		for _, value := range p.Values {
			param.Values = append(param.Values, visible.Text(value))
		}
		d.Params = append(d.Params, param)
	}
	switch {
	case e.ReadOnly:
		d.Effect = search.EffectReads
	case e.Destructive:
		d.Effect = search.EffectActs
	}
	return d
}
