package computer

import (
	"encoding/json"
	"slices"
	"sort"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
)

// tool is one offered tool.
type tool struct {
	server *Server
	name   string // the MCP server's name for it
	alias  string // the name to offer, or name
	meta   ToolMeta
	raw    json.RawMessage
}

// toolset is an immutable snapshot of all callable tools.
type toolset struct {
	all     []*tool
	byName  map[string][]*tool // by alias, or by name without one
	byFull  map[string]*tool   // by bundle id and alias or name
	byExact map[string]*tool   // by server and the server's own name

	forbidden map[string]string // by name, with and without the bundle id; the value is the server that forbids it
}

// ambiguous returns the error for a name that two servers use.
func ambiguous(name string, tools []*tool) error {
	last := tools[len(tools)-1]
	return faultf(smcp.CodeInvalid, "two servers offer the tool %q: %q and %q. Give one an alias: servers.%s.tool_meta.%s.alias",
		name, tools[0].server.Name, last.server.Name, last.server.Name, last.name)
}

// find returns the tool of a name in any dialect.
func (s *toolset) find(name string) (*tool, error) {
	if t := s.byFull[name]; t != nil {
		return t, nil
	}
	switch tools := s.byName[name]; len(tools) {
	case 0:
	case 1:
		return tools[0], nil
	default:
		return nil, ambiguous(name, tools)
	}
	if server, ok := s.forbidden[name]; ok {
		return nil, faultf(smcp.CodeForbidden, "the tool %q is forbidden on this Computer: servers.%s.forbidden_tools", name, server)
	}
	return nil, faultf(smcp.CodeNotFound, "there is no tool %q on this Computer; %s lists those it has", name, smcp.EventGetTools)
}

// exactly returns the tool of a server by the server's own name. A tool that is not listed has no
// definition.
func (s *toolset) exactly(server *Server, name string) *tool {
	if t := s.byExact[server.Name+"\x00"+name]; t != nil {
		return t
	}
	return &tool{server: server, name: name, alias: name, meta: server.meta(name)}
}

// Problems returns the sorted reasons why tools cannot be called by their names.
func (c *Computer) Problems() []string {
	out := c.catalog.problems()
	sort.Strings(out)
	return out
}

// Tools returns the tools of all servers under the names that an agent of a protocol version uses:
// an a2c_version such as "0.5.0", or "" for an agent without one. From 0.3 on a name starts with its
// server. Before that, a name that two servers use is left out.
func (c *Computer) Tools(version string) []smcp.Tool {
	return c.catalog.now().in(a2c.ToldDialect(version))
}

// in returns the tools under the names of a dialect.
func (s *toolset) in(d a2c.Dialect) []smcp.Tool {
	out := make([]smcp.Tool, 0, len(s.all))
	for _, t := range s.all {
		if !d.Prefixed() && len(s.byName[t.alias]) > 1 {
			continue
		}
		out = append(out, t.describe(d))
	}
	return out
}

// describe returns the tool in the form of client:get_tools.
func (t *tool) describe(d a2c.Dialect) smcp.Tool {
	var description, input, output, annotations, own []byte
	_ = rawjson.Scan(t.raw, // a duplicate key counts as absent
		rawjson.Key("description", &description), rawjson.Key("inputSchema", &input), rawjson.Key("outputSchema", &output),
		rawjson.Key("annotations", &annotations), rawjson.Key("_meta", &own))
	desc := smcp.Tool{
		Name: d.ToolName(t.server.bundle(), t.alias), BundleID: t.server.bundle(), Description: rawjson.Text(description),
		ParamsSchema: json.RawMessage(input), ReturnSchema: json.RawMessage(output),
	}
	if !rawjson.IsObject(desc.ParamsSchema) {
		desc.ParamsSchema = json.RawMessage(`{"type":"object"}`)
	}
	if !rawjson.IsObject(desc.ReturnSchema) {
		desc.ReturnSchema = json.RawMessage("null")
	}
	meta := map[string]any{}
	if rawjson.IsObject(own) {
		_ = rawjson.EachMember(own, func(m rawjson.Member) bool { // its syntax has been checked with the whole
			meta[string(m.Key)] = attribute(m.Value)
			return true
		})
	}
	said := t.meta
	said.AutoApply = said.AutoApply.decide(t.raw)
	if own, err := smcp.Encode(said); err == nil && string(own) != "{}" {
		meta[smcp.MetaTool] = string(own)
	}
	if rawjson.IsObject(annotations) {
		meta[smcp.MetaAnnotation] = string(annotations)
	}
	if len(meta) > 0 {
		if raw, err := smcp.Encode(meta); err == nil {
			desc.Meta = raw
		}
	}
	return desc
}

// attribute returns a value of a tool's meta: strings, numbers and booleans as they are, anything
// else as JSON text.
func attribute(raw json.RawMessage) any {
	switch {
	case len(raw) == 0, raw[0] == '{', raw[0] == '[', raw[0] == 'n':
		return string(raw)
	}
	return json.RawMessage(slices.Clone(raw))
}
