package gateway

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/gateway/dispatch"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/visible"
)

var hydrateKeys = []string{"tool_id"}

// hydrate answers tool_hydrate (spec/gateway §4.3) with the definition as
// the upstream wrote it.
func (g *Gateway) hydrate(find *finder) dispatch.Dispatcher {
	return dispatch.DispatcherFunc(func(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
		var out [1][]byte
		if err := readArguments(c, hydrateKeys, out[:]); err != nil {
			return nil, err
		}
		if _, err := find.tool(c, out[0]); err != nil {
			return nil, err
		}
		e := c.Entry
		a := dispatch.Act{Request: c.Request, Verb: ToolHydrate, Count: ToolHydrate, About: []dispatch.Subject{{Entry: e}}, Ledger: c.Session.Ledger()}
		if _, err := g.ctl.Admit(ctx, &a); err != nil {
			return nil, err
		}
		sessionOf(c).hydrated(c.Catalog, e.ID, g.opts.CacheStable)
		doc := []byte(`{"tool_id":`)
		doc = rawjson.AppendString(doc, e.ID)
		member := func(key string, value []byte) {
			if len(value) > 0 {
				doc = append(append(append(doc, ',', '"'), key...), '"', ':')
				doc = append(doc, value...)
			}
		}
		member("name", rawjson.Quote(e.RawName))
		if e.Title != "" {
			member("title", rawjson.Quote(visible.Text(e.Title)))
		}
		member("description", rawjson.Quote(visible.Text(e.Description)))
		schema := e.InputSchema
		if schema == nil {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		member("inputSchema", dispatch.ShownSchema(e, schema))
		member("outputSchema", dispatch.ShownSchema(e, e.OutputSchema))
		member("annotations", dispatch.ShownSchema(e, e.Annotations))
		doc = append(doc, '}')
		if c.Format == result.FormatJSON {
			return result.Texts(doc, string(doc)), nil
		}
		return result.Texts(nil, string(doc)), nil
	})
}
