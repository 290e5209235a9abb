package metatool

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/visible"
)

var hydrateKeys = []string{"tool_id"}

// defined finds the tool of a call of tool_hydrate.
func (f *finder) defined(_ context.Context, c *dispatch.Call) error {
	var out [1][]byte
	if err := readArguments(c, hydrateKeys, out[:]); err != nil {
		return err
	}
	_, err := f.tool(c, out[0])
	return err
}

// hydrate answers tool_hydrate (spec/gateway §4.3) with the definition as the upstream wrote it.
func (g *Gateway) hydrate(_ context.Context, c *dispatch.Call) (json.RawMessage, error) {
	e := c.Entry
	sessionOf(c).hydrated(c.Catalog, e.ID, g.opts.CacheStable)
	w := rawjson.NewWriter(nil).Object().Key("tool_id").String(e.ID).Key("name").String(e.RawName)
	if e.Title != "" {
		w.Key("title").String(visible.Text(e.Title))
	}
	w.Key("description").String(visible.Text(e.Description))
	shown := func(key string, schema json.RawMessage) {
		if schema := dispatch.ShownSchema(e, schema); len(schema) > 0 {
			w.Key(key).Raw(schema)
		}
	}
	schema := e.InputSchema
	if schema == nil {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	shown("inputSchema", schema)
	shown("outputSchema", e.OutputSchema)
	shown("annotations", e.Annotations)
	doc := w.EndObject().Bytes()
	if c.Format == result.FormatJSON {
		return result.Texts(doc, string(doc)), nil
	}
	return result.Texts(nil, string(doc)), nil
}
