package metatool

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
)

// toolPaths finds tools by the names of their server and of the tool, as programs write them:
// tools.SERVER.TOOL. The zero value is ready for use. It is safe for concurrent use.
type toolPaths struct{ of atomic.Pointer[pathIndex] }

// pathIndex has the tools of one catalog.
type pathIndex struct {
	of *catalog.Catalog
	// exact has them by names as they are, loose by names of which each character that JavaScript does not take is
	// an underscore. An entry is nil if several tools have the names.
	exact, loose map[[2]string]*catalog.Entry
}

// index returns the tools of a catalog.
func (p *toolPaths) index(from *catalog.Catalog) *pathIndex {
	if known := p.of.Load(); known != nil && known.of == from {
		return known
	}
	x := &pathIndex{of: from, exact: map[[2]string]*catalog.Entry{}, loose: map[[2]string]*catalog.Entry{}}
	add := func(to map[[2]string]*catalog.Entry, server, name string, e *catalog.Entry) {
		key := [2]string{server, name}
		if other, taken := to[key]; taken && other != e {
			e = nil
		}
		to[key] = e
	}
	for _, e := range toolsOf(from) {
		add(x.exact, e.Namespace, e.RawName, e)
		add(x.loose, identifier(e.Namespace), identifier(e.RawName), e)
	}
	p.of.Store(x)
	return x
}

// identifier returns a name as it may stand after a dot in JavaScript.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '$' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// find returns the only tool of two names. If the session was shown another definition of it, the error says so: a
// program is written for what its author has read. If the server has not come up yet, the error says why.
func (p *toolPaths) find(
	from *catalog.Catalog, down outages, st *sessionState, server, name string,
) (*catalog.Entry, error) {
	x := p.index(from)
	e, found := x.exact[[2]string{server, name}]
	if !found {
		e, found = x.loose[[2]string{identifier(server), identifier(name)}]
	}
	path := "tools." + text.Fit(server, 60) + "." + text.Fit(name, 60)
	switch {
	case found && e == nil:
		return nil, result.NewError(result.HydrateFailed, path+": several tools have these names; use call with the tool_id")
	case !found:
		if e := down.absentSpace(func(n string) bool { return identifier(n) == identifier(server) }); e != nil {
			e.Message = path + ": " + e.Message
			return nil, e
		}
		fail := result.NewError(result.HydrateFailed, path+": no tool has these names")
		if nearest := from.Nearest(server+":"+name, 5); len(nearest) > 0 {
			fail.Message += "; close to it: " + nearest[0]
		} else {
			fail.Message += "; find(query) returns tool_ids"
		}
		return nil, fail
	}
	if shown := st.shownOtherwise(from, e); shown != "" {
		return nil, result.NewError(result.HydrateFailed, fmt.Sprintf("%s: its definition has changed since %s was shown; look at it again: its tool_id is now %s", path, shown, e.ID))
	}
	return e, nil
}

// shownOtherwise returns the id under which the session was shown an earlier definition of a tool, "" if it was not,
// or has seen the present one.
func (st *sessionState) shownOtherwise(from *catalog.Catalog, e *catalog.Entry) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := shownKey(from, e.ID)
	if _, seen := st.offered[now]; seen {
		return ""
	}
	bare := shortTool(e.ID)
	for key := range st.offered {
		id, _, _ := strings.Cut(key, "\t")
		if key != id && (isPart(bare, id) || bare == id) { // a key without a digest says nothing of the definition
			return id
		}
	}
	return ""
}
