package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

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

// listing makes the results of tools/list, once for each snapshot. It is safe for concurrent use.
type listing struct {
	upstreams Upstreams
	meta      *metaTable
	mode      Mode
	names     NameForm
	redact    func([]byte) []byte // removes secrets; nil removes none

	proxied atomic.Pointer[proxyList] // of the newest snapshot seen
	tagged  atomic.Pointer[listTags]  // the same
}

// tools returns the result of tools/list over a snapshot, and the catalog that it lists.
func (l *listing) tools(s *Snapshot) (*catalog.Catalog, json.RawMessage) {
	if l.mode == ModeProxy {
		list := l.proxy()
		return list.of, list.result
	}
	return s.Catalog, l.meta.list(s)
}

// proxy returns the list of proxy mode for the current snapshot.
func (l *listing) proxy() *proxyList {
	s := l.upstreams.Snapshot()
	c := s.Catalog
	if list := l.proxied.Load(); list != nil && list.of == c {
		return list
	}
	list := &proxyList{of: c, ids: map[string]string{}}
	out := append([]byte(`{"tools":[`), l.meta.definitions(s.hasResources(), s.hasPrompts())...)
	names := map[string]int{}
	for _, e := range c.Entries() {
		if e.Kind == catalog.KindTool {
			names[l.names.write(e)]++
		}
	}
	for _, e := range c.Entries() { // sorted by id
		if e.Kind != catalog.KindTool {
			continue
		}
		name := l.names.write(e)
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
	if l.redact != nil {
		out = l.redact(out)
	}
	list.result = slices.Clip(out)
	l.proxied.Store(list)
	return list
}

// idOf returns the id of the tool that proxy mode lists under another name, "" where there is
// none and in gateway mode.
func (l *listing) idOf(name string) string {
	if l.mode != ModeProxy {
		return ""
	}
	return l.proxy().ids[name]
}

// discovery is what an agent finds tools with.
func (l *listing) discovery() string {
	if l.mode == ModeProxy {
		return "tools/list"
	}
	return ToolBrowse
}

// notMeta is the error for a tools/call of a name that is no meta-tool here (spec/gateway §4.1):
// tools of upstreams are called through tool_execute.
func (l *listing) notMeta(name string) error {
	s := l.upstreams.Snapshot()
	e, known := s.Catalog.Lookup(name)
	known = known && e.Kind == catalog.KindTool || l.idOf(name) != ""
	short := text.Line(name, 240)
	if known {
		return mcp.Errorf(mcp.KindInvalidParams, `tool %q is not called directly: call %s with {"tool_id":%s,"args":{…}} instead`, short, ToolExecute, rawjson.Quote(short))
	}
	return mcp.Errorf(mcp.KindInvalidParams, "unknown tool %q: the tools here are %s; find others with %s and run them with %s", short, l.meta.names(s), l.discovery(), ToolExecute)
}
