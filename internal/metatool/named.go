package metatool

import (
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Clients name resources by their URIs and prompts by their names, which several servers may share.
// A name resolves to one entry, or to none:
//
//	an id                                          that entry, even if a server uses the id as a name
//	listed by a server of mcpServers               the first one in the order of the file
//	matches the template of one                    the same, if no server lists it
//	listed, or matched, by one discovered server   that one
//	by several discovered servers                  refused: the error names the ids
//
// A discovered server, such as a registered agent or a Computer's, never takes precedence over a
// configured one.

// prompt returns the prompt that a name resolves to.
func (s *Snapshot) prompt(name string) (*catalog.Entry, error) {
	return s.exact(primitive.KindPrompt, name, "prompts/list shows what there is")
}

// template returns the resource template that a URI template resolves to.
func (s *Snapshot) template(uri string) (*catalog.Entry, error) {
	return s.exact(primitive.KindTemplate, uri, "resources/templates/list shows what there is")
}

// exact returns the entry of a kind by its id or by its name.
func (s *Snapshot) exact(kind primitive.Kind, name, hint string) (*catalog.Entry, error) {
	if e, ok := s.Catalog.Lookup(name); ok && e.Kind == kind {
		return e, nil
	}
	var named []*catalog.Entry
	if !isID(name) {
		named = s.Catalog.Named(kind, name)
	}
	if len(named) == 0 {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "no %s is called %q; %s", wordFor(kind), text.Fit(name, 120), hint)
	}
	if e := s.Catalog.Choose(named); e != nil {
		return e, nil
	}
	return nil, ambiguous(wordFor(kind), name, named)
}

// resource returns the entry that a URI resolves to: a resource, or a template that matches the
// URI. read is the upstream from which the session has read it, or ""; among configured servers,
// that one is preferred.
func (s *Snapshot) resource(uri, read string) (*catalog.Entry, error) {
	e, err := s.resourceOf(uri, read)
	if err == nil && e.URI != uri && !s.gives(e, uri) && e.ID != uri {
		return nil, noResource(uri)
	}
	return e, err
}

// resourceOf is resource without regard to what a template may make.
func (s *Snapshot) resourceOf(uri, read string) (*catalog.Entry, error) {
	if e, ok := s.Catalog.Lookup(uri); ok && e.Kind == primitive.KindResource {
		return e, nil
	}
	if isID(uri) {
		return nil, noResource(uri)
	}
	configured := func(e *catalog.Entry) bool { return !s.Catalog.Found(e.Upstream) }
	listed, made := s.Catalog.Named(primitive.KindResource, uri), s.madeBy(uri)
	for _, entries := range [][]*catalog.Entry{listed, made} {
		if own := filter(entries, configured); len(own) > 0 {
			if i := slices.IndexFunc(own, func(e *catalog.Entry) bool { return e.Upstream == read }); i >= 0 {
				return own[i], nil
			}
			return s.Catalog.Choose(own), nil
		}
	}
	all := slices.Concat(listed, made)
	if len(all) == 0 {
		return nil, noResource(uri)
	}
	if e := s.Catalog.Choose(all); e != nil {
		return e, nil
	}
	return nil, ambiguous("resource", uri, all)
}

// madeBy returns the templates that match a URI.
func (s *Snapshot) madeBy(uri string) []*catalog.Entry {
	var entries []*catalog.Entry
	for _, t := range s.parsedTemplates() {
		if _, ok := t.template.Match(uri); ok {
			entries = append(entries, t.entry)
		}
	}
	return entries
}

// reached reports whether an entry is the one that its own name resolves to.
func (s *Snapshot) reached(e *catalog.Entry) bool {
	named := s.Catalog.Named(e.Kind, e.Key().Name)
	if isID(e.Key().Name) || len(named) > 1 && s.Catalog.Choose(named) != e {
		return false
	}
	if e.Kind != primitive.KindResource || !s.Catalog.Found(e.Upstream) {
		return true
	}
	owner, err := s.resource(e.URI, "")
	return err == nil && owner == e
}

// hidden reports whether lists omit a resource or template because its URI resolves to another one.
func (s *Snapshot) hidden(e *catalog.Entry) bool {
	named := s.Catalog.Named(e.Kind, e.URI)
	if len(named) < 2 {
		return false
	}
	chosen := s.Catalog.Choose(named)
	if chosen == nil && e.Kind == primitive.KindTemplate {
		chosen = named[0]
	}
	return chosen != nil && chosen != e
}

// isID reports whether a name has the form of an id of a resource or prompt. Such a name never
// resolves to a server's own name, because the entry of the id may have gone.
func isID(name string) bool {
	return strings.HasPrefix(name, "resource::") || strings.HasPrefix(name, "prompt::")
}

func filter(entries []*catalog.Entry, keep func(*catalog.Entry) bool) []*catalog.Entry {
	var kept []*catalog.Entry
	for _, e := range entries {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

func wordFor(kind primitive.Kind) string { return strings.ReplaceAll(string(kind), "_", " ") }

func noResource(uri string) error {
	err := mcp.Errorf(mcp.KindResourceNotFound, "no resource has the uri %q; resources/list lists what there is", text.Fit(uri, 200))
	err.Data = append(rawjson.AppendString([]byte(`{"kind":"resource_not_found","uri":`), text.Fit(uri, 200)), '}')
	return err
}

// ambiguous returns the error for a name of several servers that are not configured.
func ambiguous(word, name string, entries []*catalog.Entry) error {
	const told = 4
	var servers, ids []string
	for _, e := range entries {
		if !slices.Contains(servers, e.Upstream) && len(servers) < told {
			servers, ids = append(servers, e.Upstream), append(ids, e.ID)
		}
	}
	return mcp.Errorf(mcp.KindInvalidParams, "the %s %q is of several servers, %s, and none of them is in mcpServers, which would settle it; name it by its id: %s",
		word, text.Fit(name, 120), strings.Join(servers, " and "), strings.Join(ids, " or "))
}
