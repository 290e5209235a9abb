package metatool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// NameForm selects how proxy mode writes a tool id as a tool name.
type NameForm uint8

// Name forms. Strict clients refuse ":" and "#" in a name, and names over 64 characters.
const (
	NameCanonical  NameForm = iota // files:read#85b56782
	NameURLEncoded                 // files%3Aread%2385b56782
	NameAlias                      // files_read_1f2e3d4c: [A-Za-z0-9_-]{1,64}, stable
	NamePlain                      // files__read: the name of plain mode; see toolNames
)

// write returns the name that lists a tool.
func (f NameForm) write(e *catalog.Entry) string {
	switch f {
	case NameURLEncoded:
		return url.QueryEscape(e.ID)
	case NameAlias:
		sum := sha256.Sum256([]byte(e.ID))
		suffix := "_" + hex.EncodeToString(sum[:4])
		name := strings.Map(acceptedRune, e.Namespace+"_"+e.Name)
		return name[:min(len(name), maxListedName-len(suffix))] + suffix
	}
	return e.ID
}

// proxyList is the tools/list result of proxy mode for one snapshot.
type proxyList struct {
	of     *catalog.Catalog
	result json.RawMessage
	ids    map[string]string // from other names of a tool to its id
}

// listing builds the results of tools/list, once per snapshot. It is safe for concurrent use.
type listing struct {
	upstreams Upstreams
	meta      *metaTable
	mode      Mode
	names     NameForm
	redact    func([]byte) []byte // removes secrets; nil removes none
	given     *toolNames
	main      *listing // of all that there is, if this one is of a part; else nil
	common    *listing // of the entries that all callers share, if some entries here are of one; else nil

	named   atomic.Pointer[naming] // of the newest snapshot seen, as all below
	plained atomic.Pointer[plainList]
	costs   atomic.Pointer[cost]
	proxied atomic.Pointer[proxyList] // of the newest snapshot seen
	gated   atomic.Pointer[gatewayList]
	tagged  atomic.Pointer[listTags] // likewise
}

// with returns a listing of all entries that may exist for callers with lists of their own.
func (l *listing) with(o *own) *listing {
	return &listing{upstreams: o, meta: l.meta, mode: l.mode, names: l.names, redact: l.redact, given: l.given, common: l}
}

// tools returns the result of tools/list over a snapshot, and the catalog that it lists.
func (l *listing) tools(s *Snapshot) (*catalog.Catalog, json.RawMessage) {
	switch l.mode {
	case ModeProxy:
		list := l.proxy()
		return list.of, list.result
	case ModePlain:
		list := l.plain()
		return list.of, list.all
	}
	list := l.gateway()
	return list.of, list.result
}

// proxy returns the list of proxy mode for the current snapshot.
func (l *listing) proxy() *proxyList {
	s := l.upstreams.Snapshot()
	c := s.Catalog
	if list := l.proxied.Load(); list != nil && list.of == c {
		return list
	}
	list := &proxyList{of: c, ids: map[string]string{}}
	out := append([]byte(`{"tools":[`), l.meta.definitions(s.hasResources(), s.hasPrompts(), "")...)
	write := l.names.write
	if l.names == NamePlain {
		given := l.assign(c)
		write = func(e *catalog.Entry) string { return given.names[e] }
	}
	names := map[string]int{}
	tools := toolsOf(c)
	for _, e := range tools {
		names[write(e)]++
	}
	for _, e := range tools { // sorted by id
		name := write(e)
		if names[name] > 1 { // an alias of two tools denotes neither
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

// idOf returns the id of the tool that is listed under another name, "" where there is none and in
// gateway mode. A tool that is not there now may have a name: calls of it say what became of its
// server.
func (l *listing) idOf(name string) string {
	id := ""
	switch l.mode {
	case ModeGateway:
		return ""
	case ModeProxy:
		id = l.proxy().ids[name]
	case ModePlain:
		id = l.naming().ids[name]
	}
	if id == "" && l.main == nil && l.common == nil && (l.mode == ModePlain || l.names == NamePlain) {
		id = l.given.last(name)
	}
	return id
}

// knows reports whether a name is the name of a listed tool, or its id.
func (l *listing) knows(name string) bool {
	e, known := l.upstreams.Snapshot().Catalog.Lookup(name)
	return known && e.Kind == primitive.KindTool || l.idOf(name) != ""
}

// discovery returns the name of the method or meta-tool that finds tools.
func (l *listing) discovery() string {
	if l.mode == ModeGateway {
		return ToolBrowse
	}
	return "tools/list"
}

// notMeta returns the error for a tools/call with a name that is not a meta-tool (spec/gateway
// §4.1): upstream tools are called through tool_execute.
func (l *listing) notMeta(name string) error {
	s := l.upstreams.Snapshot()
	short := text.Line(name, 240)
	switch {
	case l.mode == ModePlain:
		return mcp.Errorf(mcp.KindInvalidParams, "unknown tool %q: %s shows the tools here", short, l.discovery())
	case l.knows(name):
		return mcp.Errorf(mcp.KindInvalidParams, `tool %q is not called directly: call %s with {"tool_id":%s,"args":{…}} instead`, short, ToolExecute, rawjson.Quote(short))
	}
	return mcp.Errorf(mcp.KindInvalidParams, "unknown tool %q: the tools here are %s; find others with %s and run them with %s", short, l.meta.names(s), l.discovery(), ToolExecute)
}
