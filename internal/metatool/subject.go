package metatool

import (
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/text"
)

// These functions find the entries that an act may concern: those with the upstream's name, and all
// others that the upstream may take for it.

// about returns the subjects of a call of an entry: the entry and, if a URI is read, the entries
// that the URI denotes at the same upstream.
func (s *Snapshot) about(e *catalog.Entry, uri string) []dispatch.Subject {
	list := []dispatch.Subject{{Entry: e, URI: uri}}
	if uri == "" || e.Kind == primitive.KindTemplate && uri == e.URI { // the template itself, for its completion
		return list
	}
	return append(list, s.readable([]Place{{Upstream: e.Upstream, Namespace: e.Namespace}}, uri)...)
}

// readable returns the subjects of reading a URI at any of the places.
func (s *Snapshot) readable(places []Place, uri string) []dispatch.Subject {
	list := s.addReadable(nil, places, uri)
	for _, spelling := range dispatch.Spellings(uri) {
		known := len(list)
		list = s.addReadable(list, places, spelling.URI)
		for i := range list[known:] {
			list[known+i].Lenient = spelling.Lenient
		}
	}
	for _, p := range places {
		if why := dispatch.Unclear(uri); why != "" && s.entryAt(p.Upstream, primitive.KindResource, uri) == nil {
			one := p.unlisted(primitive.KindResource, uri)
			one.Odd = why
			list = append(list, one)
		}
	}
	return list
}

// addReadable adds the entries that a URI denotes: resources listed under it or under another
// spelling; otherwise the templates that match it; otherwise an unlisted subject.
func (s *Snapshot) addReadable(list []dispatch.Subject, places []Place, uri string) []dispatch.Subject {
	before := len(list)
	for _, p := range places {
		found := len(list)
		for _, e := range s.listed(primitive.Key{Upstream: p.Upstream, Kind: primitive.KindResource, Name: uri}) {
			list = append(list, dispatch.Subject{Entry: e, URI: uri})
		}
		if len(list) > found {
			continue
		}
		for i := range s.parsedTemplates() {
			if t := &s.templates.list[i]; t.entry.Upstream == p.Upstream && t.makes(uri) {
				list = append(list, dispatch.Subject{Entry: t.entry, URI: uri})
			}
		}
	}
	if len(list) > before {
		return list
	}
	for _, p := range places {
		list = append(list, p.unlisted(primitive.KindResource, uri))
	}
	return list
}

// completable returns the subjects of completing a reference to a resource: the template listed
// under it, or the subjects of reading it.
func (s *Snapshot) completable(places []Place, uri string) []dispatch.Subject {
	var list []dispatch.Subject
	for _, p := range places {
		if e := s.entryAt(p.Upstream, primitive.KindTemplate, uri); e != nil {
			list = append(list, dispatch.Subject{Entry: e, URI: uri})
		}
	}
	if len(list) > 0 {
		return list
	}
	return s.readable(places, uri)
}

// called returns the tools or prompts that a name denotes at any of the places.
func (s *Snapshot) called(places []Place, kind primitive.Kind, name string) []dispatch.Subject {
	var list []dispatch.Subject
	for _, p := range places {
		for _, name := range p.names(name) {
			if e := s.entryAt(p.Upstream, kind, name); e != nil {
				list = append(list, dispatch.Subject{Entry: e})
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, p := range places {
		one := p.unlisted(kind, name)
		if e := s.readsLike(p, kind, name); e != nil {
			one.Odd = fmt.Sprintf("no %s is listed under this name, and it reads like %q: call that one", kind, text.Fit(e.RawName, 80))
		} else if strings.ContainsFunc(name, unicode.IsControl) {
			one.Odd = fmt.Sprintf("no %s is listed under this name, and it has control characters", kind)
		}
		list = append(list, one)
		if like := dispatch.Folded(name); like != name && one.Odd == "" {
			plain := p.unlisted(kind, like)
			plain.Folds = true
			list = append(list, plain)
		}
	}
	return list
}

// readsLike returns the listed entry whose name at a place can be confused with a name, or nil.
func (s *Snapshot) readsLike(p Place, kind primitive.Kind, name string) *catalog.Entry {
	folded := s.keysOf(p.Upstream).folded()
	like, prefix := dispatch.Folded(name), dispatch.Folded(p.Prefix)
	names := []string{like}
	if rest, ok := strings.CutPrefix(like, prefix); ok && prefix != "" {
		names = append(names, rest)
	}
	for _, like := range names {
		if e := folded[primitive.Key{Upstream: p.Upstream, Kind: kind, Name: like}]; e != nil {
			return e
		}
	}
	return nil
}

// names returns the catalog names that a name at a place may denote.
func (p Place) names(name string) []string {
	if rest, ok := strings.CutPrefix(name, p.Prefix); ok && p.Prefix != "" {
		return []string{name, rest}
	}
	return []string{name}
}

// unlisted returns the subject of a name that no list contains.
func (p Place) unlisted(kind primitive.Kind, name string) dispatch.Subject {
	e := &catalog.Entry{Kind: kind, Upstream: p.Upstream, Namespace: catalog.MapNamespace(p.Namespace), Name: name, RawName: name}
	e.ID = e.Namespace + ":" + name
	if kind != primitive.KindTool {
		e.ID = string(kind) + "::" + e.ID
	}
	s := dispatch.Subject{Entry: e, Known: dispatch.KnownName}
	if p.Renamed {
		s.Known = dispatch.KnownPlace
	}
	if kind == primitive.KindResource {
		e.URI, s.URI = name, name
	}
	return s
}

// keys finds entries of a snapshot by the upstreams' own names. The first use of an upstream's names
// reads only the entries of that upstream, so a change of one list does not cost all of them.
type keys struct {
	upstreams sync.Map // from name to *upstreamKeys
	pages     pages
}

// upstreamKeys finds entries of one upstream.
type upstreamKeys struct {
	of map[primitive.Key]*catalog.Entry
	// spelt finds resources whose URIs are not in normal form by their normal forms.
	spelt map[primitive.Key][]*catalog.Entry
	// folded finds tools and prompts by folded names.
	folded func() map[primitive.Key]*catalog.Entry
}

// keysOf returns the names of an upstream's entries.
func (s *Snapshot) keysOf(upstream string) *upstreamKeys {
	if known, ok := s.keys.upstreams.Load(upstream); ok {
		return known.(*upstreamKeys)
	}
	k := newUpstreamKeys(s.Catalog.Of(upstream))
	if len(k.of) > 0 {
		s.keys.upstreams.Store(upstream, k)
	}
	return k
}

func newUpstreamKeys(entries []*catalog.Entry) *upstreamKeys {
	k := &upstreamKeys{of: make(map[primitive.Key]*catalog.Entry, len(entries)), spelt: map[primitive.Key][]*catalog.Entry{}}
	for _, e := range entries {
		// If the upstream lists two entries of one name, the first counts.
		key := e.Key()
		if k.of[key] == nil {
			k.of[key] = e
		}
		if e.Kind != primitive.KindResource {
			continue
		}
		for _, spelling := range dispatch.Spellings(e.URI) {
			if key.Name = spelling.URI; !spelling.Lenient {
				k.spelt[key] = append(k.spelt[key], e)
			}
		}
	}
	k.folded = sync.OnceValue(func() map[primitive.Key]*catalog.Entry {
		folded := map[primitive.Key]*catalog.Entry{}
		for _, e := range entries {
			if key := e.Key(); e.Kind == primitive.KindTool || e.Kind == primitive.KindPrompt {
				key.Name = dispatch.Folded(key.Name)
				folded[key] = e
			}
		}
		return folded
	})
	return k
}

// entryAt returns the entry that an upstream lists under a name, or nil.
func (s *Snapshot) entryAt(upstream string, kind primitive.Kind, name string) *catalog.Entry {
	return s.keysOf(upstream).of[primitive.Key{Upstream: upstream, Kind: kind, Name: name}]
}

// listed returns the resources that an upstream lists under a URI, as written or in normal form.
func (s *Snapshot) listed(key primitive.Key) []*catalog.Entry {
	k := s.keysOf(key.Upstream)
	if e := k.of[key]; e != nil {
		return append([]*catalog.Entry{e}, k.spelt[key]...)
	}
	return k.spelt[key]
}
