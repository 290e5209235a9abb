package gateway

import (
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Clients name resources by their URIs and prompts by their names, which several
// servers may list. A name reaches one entry, or none:
//
//	an id                                          that entry, whatever it is called
//	listed by a server of mcpServers               the first one in the order of the file
//	made by the template of one                    the same, where none lists it
//	listed, or made, by one server that was found  that one
//	by several that were found                     refused: the error names the ids
//
// A server that was found while weir runs, such as a registered agent or a Computer's,
// is never before one of the configuration.

// prompt returns the prompt that a client means with a name.
func (s *Snapshot) prompt(name string) (*catalog.Entry, error) {
	return s.exact(catalog.KindPrompt, name, "prompts/list shows what there is")
}

// template returns the resource template that a client means with a URI template.
func (s *Snapshot) template(uri string) (*catalog.Entry, error) {
	return s.exact(catalog.KindTemplate, uri, "resources/templates/list shows what there is")
}

// exact returns the entry of a kind that has an id, or what the name of the entry
// stands for.
func (s *Snapshot) exact(kind catalog.Kind, name, hint string) (*catalog.Entry, error) {
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

// resource returns the entry that a URI belongs to: a resource, or a template that
// may have made the URI. read is the upstream that the session has read it from, or
// "": of several servers of the configuration it is that one.
func (s *Snapshot) resource(uri, read string) (*catalog.Entry, error) {
	if e, ok := s.Catalog.Lookup(uri); ok && e.Kind == catalog.KindResource {
		return e, nil
	}
	if isID(uri) {
		return nil, noResource(uri)
	}
	configured := func(e *catalog.Entry) bool { return !s.Catalog.Found(e.Upstream) }
	listed, made := s.Catalog.Named(catalog.KindResource, uri), s.madeBy(uri)
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

// madeBy returns the templates that may have made a URI.
func (s *Snapshot) madeBy(uri string) []*catalog.Entry {
	var entries []*catalog.Entry
	for _, t := range s.parsedTemplates() {
		if _, ok := t.template.Match(uri); ok {
			entries = append(entries, t.entry)
		}
	}
	return entries
}

// reached reports whether the name under which an upstream lists an entry reaches the
// entry.
func (s *Snapshot) reached(e *catalog.Entry) bool {
	named := s.Catalog.Named(e.Kind, e.Key().Name)
	if isID(e.Key().Name) || len(named) > 1 && s.Catalog.Choose(named) != e {
		return false
	}
	if e.Kind != catalog.KindResource || !s.Catalog.Found(e.Upstream) {
		return true
	}
	owner, err := s.resource(e.URI, "")
	return err == nil && owner == e
}

// hidden reports whether a resource or template is left out of lists, because
// another one is listed under its URI.
func (s *Snapshot) hidden(e *catalog.Entry) bool {
	named := s.Catalog.Named(e.Kind, e.URI)
	if len(named) < 2 {
		return false
	}
	chosen := s.Catalog.Choose(named)
	if chosen == nil && e.Kind == catalog.KindTemplate {
		chosen = named[0]
	}
	return chosen != nil && chosen != e
}

// isID reports whether a name has the form of the id of a resource or prompt. It is
// never taken for what a server calls something: the entry of the id may be gone.
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

func wordFor(kind catalog.Kind) string { return strings.ReplaceAll(string(kind), "_", " ") }

func noResource(uri string) error {
	return mcp.Errorf(mcp.KindResourceNotFound, "no resource has the uri %q; resources/list lists what there is", text.Fit(uri, 200))
}

// ambiguous is the error for a name of several servers of which none is in the
// configuration.
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
