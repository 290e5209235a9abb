package metatool

import (
	"context"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A tool may have a page that the host shows with its result (MCP Apps): its definition names a
// resource with a URI of the scheme ui, which its server need not list. Plain mode passes on what a
// host needs:
//
//	tools/list ── _meta.ui of a tool ──▶ host
//	host ── resources/read of the page ──▶ the server of the tool
const appsExtension = "io.modelcontextprotocol/ui"

// maxForHosts bounds the bytes of a member of a definition that hosts read and models do not.
const maxForHosts = 2 << 10

// pages are the tools that the pages of a snapshot belong to, by URI.
type pages struct {
	once sync.Once
	of   map[string]*catalog.Entry
}

// pages returns the tools that have a page which belongs to their server, by the URI of the page. It
// finds them once.
func (s *Snapshot) pages() map[string]*catalog.Entry {
	p := &s.keys.pages
	p.once.Do(func() {
		sharing := map[string][]*catalog.Entry{}
		for _, e := range s.Catalog.Entries() {
			if e.Page != "" && e.Kind == primitive.KindTool {
				sharing[e.Page] = append(sharing[e.Page], e)
			}
		}
		p.of = make(map[string]*catalog.Entry, len(sharing))
		for uri, tools := range sharing {
			owner := s.Catalog.Choose(tools)
			if listed, err := s.resource(uri, ""); err == nil {
				owner = nil
				for _, e := range tools {
					if e.Upstream == listed.Upstream {
						owner = e
					}
				}
			}
			if owner != nil {
				p.of[uri] = owner
			}
		}
	})
	return p.of
}

// page returns the entry for reading a page that no server lists, nil if no tool has the page.
func (s *Snapshot) page(uri string) *catalog.Entry {
	tool := s.pages()[uri]
	if tool == nil {
		return nil
	}
	if e := s.readable([]Place{{Upstream: tool.Upstream, Namespace: tool.Namespace}}, uri)[0].Entry; s.gives(e, uri) {
		return e
	}
	return nil
}

// hasContents reports whether resources/read can succeed: a server has resources, or a tool a page.
func (s *Snapshot) hasContents() bool { return s.hasResources() || len(s.pages()) > 0 }

// listsPages reports whether tools/list may show the pages of tools to the caller of ctx.
func (g *Gateway) listsPages(ctx context.Context) bool {
	mode := g.Mode(ctx)
	return mode == ModePlain || mode == ModeAuto
}

// writeForHosts writes the members of a tool that clients show to people. The page is left out where
// its URI is the URI of another server's page, which would stand for this tool otherwise. The member
// execution is left out because /mcp has no methods of tasks.
func writeForHosts(w *rawjson.Writer, e *catalog.Entry, s *Snapshot) {
	if icons := dispatch.ShownSchema(e, rawjson.Get(e.Raw, "icons")); rawjson.IsArray(icons) && len(icons) <= maxForHosts {
		w.Key("icons").Raw(icons)
	}
	meta := rawjson.Get(e.Raw, "_meta")
	ui := dispatch.ShownSchema(e, rawjson.Get(meta, "ui"))
	owner := s.pages()[e.Page]
	switch {
	case !rawjson.IsObject(ui) && e.Page == "", len(ui) > maxForHosts, e.Page != "" && (owner == nil || owner.Upstream != e.Upstream):
		return
	}
	w.Key("_meta").Object()
	if rawjson.IsObject(ui) {
		w.Key("ui").Raw(ui)
	}
	if flat := rawjson.Get(meta, "ui/resourceUri"); e.Page != "" && rawjson.Text(flat) == e.Page {
		w.Key("ui/resourceUri").Raw(flat)
	}
	w.EndObject()
}
