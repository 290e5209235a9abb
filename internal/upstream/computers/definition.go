package computers

import (
	"encoding/json"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
)

// definition returns a tool as MCP lists it.
func definition(t smcp.Tool) (json.RawMessage, error) {
	out := map[string]any{"name": t.Name, "inputSchema": json.RawMessage(`{"type":"object"}`)}
	if t.Description != "" {
		out["description"] = t.Description
	}
	if rawjson.IsObject(t.ParamsSchema) {
		out["inputSchema"] = t.ParamsSchema
	}
	if rawjson.IsObject(t.ReturnSchema) {
		out["outputSchema"] = t.ReturnSchema
	}
	if rawjson.IsObject(t.Meta) {
		meta := t.Meta
		if text := rawjson.Text(rawjson.Get(meta, smcp.MetaAnnotation)); text != "" && rawjson.Valid([]byte(text)) == nil && rawjson.IsObject([]byte(text)) {
			out["annotations"] = withoutNulls(json.RawMessage(text))
			if rest, err := rawjson.Delete(meta, smcp.MetaAnnotation); err == nil {
				meta = rest
			}
		}
		out["_meta"] = meta
	}
	return smcp.Encode(out)
}

// withoutNulls removes members that are null. MCP leaves out absent members; some Computers write
// null for them.
func withoutNulls(obj json.RawMessage) json.RawMessage {
	var nulls []string
	_ = rawjson.EachMember(obj, func(m rawjson.Member) bool { // an unreadable object stays as it is
		if string(m.Value) == "null" {
			nulls = append(nulls, string(m.Key))
		}
		return true
	})
	for _, key := range nulls {
		if next, err := rawjson.Delete(obj, key); err == nil {
			obj = next
		}
	}
	return obj
}
