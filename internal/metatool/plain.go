package metatool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of one page of tools/list in plain mode. A page has at least one tool.
const (
	plainPageTools = 500
	plainPageBytes = 1 << 20
)

// cursorPrefix starts the cursors of plain mode; what follows is the id of the last tool of the
// page. So a walk goes on at the right place when the catalog has changed in between.
const cursorPrefix = "after:"

// plainList is the list of plain mode for one snapshot.
type plainList struct {
	of    *catalog.Catalog
	all   json.RawMessage // the tools/list result if it had one page
	head  int             // where the definitions of tools start in all
	tools []plainTool
}

type plainTool struct {
	id  string
	end int // of its definition in plainList.all
}

// cost says whether all definitions of a catalog have fewer tokens than a limit.
type cost struct {
	of    *catalog.Catalog
	limit int
	below bool
}

// naming returns the names of the current tools.
func (l *listing) naming() *naming {
	c := l.upstreams.Snapshot().Catalog
	if n := l.named.Load(); n != nil && n.of == c {
		return n
	}
	n := l.assign(c)
	l.named.Store(n)
	return n
}

// assign names the tools of a catalog. Those of a part have the names that they have in the whole.
func (l *listing) assign(c *catalog.Catalog) *naming {
	switch {
	case l.common != nil:
		return assignOwn(l.common.namingOf(c.Base()), c)
	case l.main == nil:
		return l.given.assign(c)
	}
	all := l.main.namingOf(c.Whole())
	out := &naming{of: c, names: make(map[*catalog.Entry]string, c.Len()), ids: make(map[string]string, c.Len())}
	for _, e := range toolsOf(c) {
		out.names[e], out.ids[all.names[e]] = all.names[e], e.ID
	}
	return out
}

// namingOf returns the names of the tools of a catalog, which is the current one or was it before.
func (l *listing) namingOf(c *catalog.Catalog) *naming {
	if now := l.naming(); now.of == c {
		return now
	}
	return l.assign(c)
}

// plain returns the list of plain mode for the current snapshot.
func (l *listing) plain() *plainList {
	s := l.upstreams.Snapshot()
	if list := l.plained.Load(); list != nil && list.of == s.Catalog {
		return list
	}
	names := l.naming()
	list := &plainList{of: names.of}
	out := append([]byte(`{"tools":[`), l.meta.definitions(s.hasResources(), s.hasPrompts(), "")...)
	for _, e := range toolsOf(names.of) {
		if out[len(out)-1] != '[' {
			out = append(out, ',')
		}
		if list.head == 0 {
			list.head = len(out)
		}
		out = append(out, l.define(e, names.names[e], s)...)
		list.tools = append(list.tools, plainTool{e.ID, len(out)})
	}
	list.all = slices.Clip(append(out, `]}`...))
	l.plained.Store(list)
	return list
}

// define returns the definition of a tool under a name: what the model reads of the one that the
// upstream wrote and, if s is not nil, what the client shows to people.
func (l *listing) define(e *catalog.Entry, name string, s *Snapshot) []byte {
	w := rawjson.NewWriter(nil).Object().Key("name").String(name)
	writeDefinition(w, e)
	output := dispatch.ShownSchema(e, e.OutputSchema)
	if l.meta.holdsBack {
		output = orHeldBack(output)
	}
	if output != nil {
		w.Key("outputSchema").Raw(output)
	}
	if annotations := dispatch.ShownSchema(e, e.Annotations); len(annotations) > 0 {
		w.Key("annotations").Raw(annotations)
	}
	if s != nil {
		writeForHosts(w, e, s)
	}
	doc := w.EndObject().Bytes()
	if l.redact != nil {
		doc = l.redact(doc)
	}
	return doc
}

// writeDefinition writes the members title, description and inputSchema of a tool. The schema always
// has the type object: providers refuse a whole list because of one tool without it.
func writeDefinition(w *rawjson.Writer, e *catalog.Entry) {
	if e.Title != "" {
		w.Key("title").String(visible.Text(e.Title))
	}
	w.Key("description").String(visible.Text(e.Description))
	schema := dispatch.ShownSchema(e, e.InputSchema)
	if len(schema) == 0 || schema[0] != '{' {
		schema = []byte(`{"type":"object"}`)
	}
	if rawjson.Text(rawjson.Get(schema, "type")) != "object" {
		if object, err := rawjson.Set(schema, "type", []byte(`"object"`)); err == nil {
			schema = object
		} else {
			schema = []byte(`{"type":"object"}`)
		}
	}
	w.Key("inputSchema").Raw(schema)
}

// heldBack is the member of structuredContent that stands for a result that was held back.
const heldBack = "weir/held_back"

// orHeldBack returns an output schema that also allows the structuredContent of a result that was
// held back. Without it, clients that check results refuse every long one. It returns nil where it
// cannot say so: then a tool is listed without an output schema.
func orHeldBack(schema []byte) []byte {
	if len(schema) == 0 || schema[0] != '{' || strings.Contains(string(schema), `"#/properties`) || strings.Contains(string(schema), `"#/items`) {
		return nil // a reference into the part that moves would point to nothing
	}
	root, part := rawjson.NewWriter(nil).Object().Key("type").String("object"), rawjson.NewWriter(nil).Object()
	err := rawjson.EachMember(schema, func(m rawjson.Member) bool {
		out := part
		switch string(m.Key) {
		case "$schema", "$id", "$defs", "definitions":
			out = root
		case "type":
			if string(m.Value) == `"object"` {
				return true
			}
		}
		out.Key(string(m.Key)).Raw(m.Value)
		return true
	})
	if err != nil {
		return nil
	}
	root.Key("anyOf").Array().Raw(part.EndObject().Bytes())
	root.Object().Key("required").Strings([]string{heldBack}).EndObject()
	return root.EndArray().EndObject().Bytes()
}

// leastTokens is at most the number of tokens of a definition, whatever the name of its tool is.
const leastTokens = 8

// cheaper reports whether there are tools and all their definitions together have fewer tokens than
// limit. It counts no further than limit, once for each snapshot. If there are so many
// that their names do not matter, it names none: names of 10,000 tools take time and megabytes.
func (l *listing) cheaper(limit int) bool {
	c := l.upstreams.Snapshot().Catalog
	if known := l.costs.Load(); known != nil && known.of == c && known.limit == limit {
		return known.below
	}
	if c.Kinds()[primitive.KindTool] > limit/leastTokens {
		l.costs.Store(&cost{of: c, limit: limit})
		return false
	}
	names := l.naming()
	total, tools := 0, 0
	for _, e := range toolsOf(names.of) {
		tools++
		if total += token.Count(string(l.define(e, names.names[e], nil))); total >= limit {
			break
		}
	}
	known := &cost{of: names.of, limit: limit, below: tools > 0 && total < limit}
	l.costs.Store(known)
	return known.below
}

// page returns the page of the list that a cursor names; "" is the first one.
func (p *plainList) page(cursor string) (json.RawMessage, error) {
	from := 0
	if cursor != "" {
		id, ok := strings.CutPrefix(cursor, cursorPrefix)
		if !ok {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/list: unknown cursor")
		}
		at, found := slices.BinarySearchFunc(p.tools, id, func(t plainTool, id string) int { return strings.Compare(t.id, id) })
		if from = at; found {
			from++
		}
	}
	start := 0
	out := []byte(`{"tools":[`)
	switch {
	case from > 0:
		start = p.tools[from-1].end + 1 // behind the comma
	case cursor == "":
		start = len(out)
	default:
		start = p.head
	}
	end, to := start, from
	for to < len(p.tools) && to-from < plainPageTools && (to == from || p.tools[to].end-start <= plainPageBytes) {
		end = p.tools[to].end
		to++
	}
	if from == 0 && to == len(p.tools) && cursor == "" {
		return p.all, nil
	}
	if to > from {
		out = append(out, p.all[start:end]...)
	}
	out = append(out, ']')
	if to < len(p.tools) {
		out = append(out, `,"nextCursor":`...)
		out = rawjson.AppendString(out, cursorPrefix+p.tools[to-1].id)
	}
	return append(out, '}'), nil
}

// direct finds the tool that is called by the name it is listed under. The call is one of tool_execute
// in all that follows: checks, policy, quotas, cache and events.
func (f *finder) direct(_ context.Context, c *dispatch.Call) error {
	repaired, err := f.tool(c, c.Request.Fields().Name)
	if err != nil {
		return err
	}
	switch {
	case c.Arguments == nil || string(c.Arguments) == "null":
		c.Args = []byte("{}")
	case c.Arguments[0] != '{':
		return result.NewError(result.ArgsInvalid, "arguments must be an object, not "+text.Value(c.Arguments))
	default:
		c.Args = c.Arguments
	}
	if c.Format == result.FormatJSON {
		c.Format = result.FormatText // an envelope is not what the listed output schema promises
	}
	sessionOf(c).hydrated(c.Catalog, c.Entry.ID, f.stable)
	c.Provenance = result.Provenance{Tool: c.Entry.RawName, Protocol: "mcp", ToolID: c.Entry.ID, Selection: repaired}
	return nil
}

// promise gives a result that was held back the structuredContent which the output schema in the list
// promises; see orHeldBack.
func promise() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseShape, Name: "promise", After: func(_ context.Context, c *dispatch.Call, err error) error {
		if err != nil || c.Entry.OutputSchema == nil || c.IsError {
			return err
		}
		if c.Task == "" && rawjson.Get(c.Answer, "structuredContent") == nil || rawjson.Get(c.Reply, "structuredContent") != nil {
			return nil
		}
		if with, err := rawjson.Set(c.Reply, "structuredContent", []byte(`{"`+heldBack+`":true}`)); err == nil {
			c.Reply = with
		}
		return nil
	}}
}
