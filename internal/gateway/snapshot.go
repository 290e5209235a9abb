package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/visible"
)

// Snapshot is everything that can be called at one moment, and how it is found.
// It never changes: a refresh makes another one, and the owner of the current
// one swaps a pointer, so a call sees either the old or the new one whole
// (spec/gateway §4.6).
type Snapshot struct {
	Catalog *catalog.Catalog
	Index   *search.Index // of the catalog's tools
	// Resources and Prompts are indexes of their own, so that cards of two kinds
	// never mix (spec/gateway §6.4). Templates are among the resources.
	Resources, Prompts *search.Index

	templates *templates
	keys      *keys
}

// NewSnapshot returns an empty one that holds schemas to limits.
func NewSnapshot(limits catalog.Limits) *Snapshot {
	return NewSnapshotWith(limits, search.Options{})
}

// NewSnapshotWith is NewSnapshot with a ranking other than the usual one.
func NewSnapshotWith(limits catalog.Limits, o search.Options) *Snapshot {
	empty := search.New(o)
	return &Snapshot{Catalog: catalog.New(limits), Index: empty, Resources: empty, Prompts: empty, templates: new(templates), keys: new(keys)}
}

// Prepare computes what is otherwise computed by the first who searches. Call it
// before a snapshot is handed out.
func (s *Snapshot) Prepare() {
	s.Index.Prepare()
	s.Resources.Prepare()
	s.Prompts.Prepare()
}

// Embed returns a snapshot whose entries have vectors, where the ranking has an
// Embedder, and s itself where there is nothing to do. It takes as long as the
// Embedder does. With an error it returns what there is until then, which is
// worth adopting.
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

// Adopt returns s with the vectors that another snapshot has for the same
// entries.
func (s *Snapshot) Adopt(from *Snapshot) *Snapshot {
	out := *s
	out.Index, out.Resources, out.Prompts = s.Index.Adopt(from.Index), s.Resources.Adopt(from.Resources), s.Prompts.Adopt(from.Prompts)
	return &out
}

// index returns the index of the entries of a kind.
func (s *Snapshot) index(kind catalog.Kind) *search.Index {
	switch kind {
	case catalog.KindResource:
		return s.Resources
	case catalog.KindPrompt:
		return s.Prompts
	}
	return s.Index
}

// hasResources and hasPrompts report whether an upstream offers the primitive.
func (s *Snapshot) hasResources() bool { return s.Resources.Len() > 0 }
func (s *Snapshot) hasPrompts() bool   { return s.Prompts.Len() > 0 }

// With returns a snapshot in which what l lists is all that its upstream
// offers, and a report of what is wrong with it. Call Prepare on the last of
// several before handing it out.
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
	out := &Snapshot{Catalog: next, Index: s.Index, Resources: s.Resources, Prompts: s.Prompts, templates: new(templates), keys: new(keys)}
	out.put(changed)
	seen := map[string]bool{changed: true}
	for _, entries := range [][]*catalog.Entry{s.Catalog.Entries(), next.Entries()} {
		for _, e := range entries {
			if seen[e.Upstream] {
				continue
			}
			seen[e.Upstream] = true
			if !slices.Equal(s.Catalog.Of(e.Upstream), next.Of(e.Upstream)) {
				out.put(e.Upstream)
			}
		}
	}
	return out
}

// put indexes the entries of one upstream, each kind by itself.
func (s *Snapshot) put(upstream string) {
	var tools, resources, prompts []search.Doc
	about := s.Catalog.About(upstream)
	for _, e := range s.Catalog.Of(upstream) {
		doc := docOf(e)
		doc.About = about
		switch e.Kind {
		case catalog.KindTool:
			tools = append(tools, doc)
		case catalog.KindPrompt:
			prompts = append(prompts, doc)
		default:
			resources = append(resources, doc)
		}
	}
	s.Index = s.Index.With(upstream, tools)
	s.Resources = s.Resources.With(upstream, resources)
	s.Prompts = s.Prompts.With(upstream, prompts)
}

// docOf is what is searched of an entry. Of a resource, the URI says as much as
// the name.
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
