package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// NameForm is how proxy mode writes a tool id as the name of a listed tool.
type NameForm uint8

// The forms. Strict clients refuse ":" and "#" in a name, or names over 64
// characters.
const (
	NameCanonical  NameForm = iota // files:read#85b56782
	NameURLEncoded                 // files%3Aread%2385b56782
	NameAlias                      // files_read_1f2e3d4c: [A-Za-z0-9_-]{1,64}, stable
)

// write returns the name under which a tool id is listed.
func (f NameForm) write(e *catalog.Entry) string {
	switch f {
	case NameURLEncoded:
		return url.QueryEscape(e.ID)
	case NameAlias:
		sum := sha256.Sum256([]byte(e.ID))
		suffix := "_" + hex.EncodeToString(sum[:4])
		name := strings.Map(func(r rune) rune {
			switch {
			case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
				return r
			}
			return '_'
		}, e.Namespace+"_"+e.Name)
		return name[:min(len(name), maxAlias-len(suffix))] + suffix
	}
	return e.ID
}

const maxAlias = 64

// proxyList is the tools/list result of proxy mode for one snapshot.
type proxyList struct {
	of     *catalog.Catalog
	result json.RawMessage
	ids    map[string]string // other names of a tool → its id
}

// proxyTools returns the list for the current snapshot, made once for each.
func (g *Gateway) proxyTools() *proxyList {
	s := g.opts.Upstreams.Snapshot()
	c := s.Catalog
	if list := g.proxied.Load(); list != nil && list.of == c {
		return list
	}
	list := &proxyList{of: c, ids: map[string]string{}}
	out := append([]byte(`{"tools":[`), g.definitions(s.hasResources(), s.hasPrompts())...)
	names := map[string]int{}
	for _, e := range c.Entries() {
		if e.Kind == catalog.KindTool {
			names[g.opts.Names.write(e)]++
		}
	}
	for _, e := range c.Entries() { // sorted by id
		if e.Kind != catalog.KindTool {
			continue
		}
		name := g.opts.Names.write(e)
		if names[name] > 1 { // the alias of two tools names neither
			name = e.ID
		}
		if name != e.ID {
			list.ids[name] = e.ID
		}
		if escaped := NameURLEncoded.write(e); escaped != e.ID {
			list.ids[escaped] = e.ID
		}
		out = append(out, `,{"name":`...)
		out = rawjson.AppendString(out, name)
		out = append(out, `,"description":`...)
		out = rawjson.AppendString(out, e.Card.Description)
		out = append(out, `,"inputSchema":{"type":"object"}}`...)
	}
	out = append(out, `]}`...)
	if g.opts.RedactResults {
		out = g.opts.Redactor.Results(out)
	}
	list.result = slices.Clip(out)
	g.proxied.Store(list)
	return list
}

// notMeta is the error for a tools/call of something that is no meta-tool here
// (spec/gateway §4.1): tools of upstreams are called through tool_execute.
func (g *Gateway) notMeta(name string) error {
	s := g.opts.Upstreams.Snapshot()
	e, known := s.Catalog.Lookup(name)
	known = known && e.Kind == catalog.KindTool
	if !known && g.opts.Mode == ModeProxy {
		known = g.proxyTools().ids[name] != ""
	}
	short := text.Line(name, 240)
	if known {
		return mcp.Errorf(mcp.KindInvalidParams, `tool %q is not called directly: call %s with {"tool_id":%s,"args":{…}} instead`, short, ToolExecute, rawjson.Quote(short))
	}
	return mcp.Errorf(mcp.KindInvalidParams, "unknown tool %q: the tools here are %s; find others with %s and run them with %s", short, g.metaNames(s), g.discovery(), ToolExecute)
}
