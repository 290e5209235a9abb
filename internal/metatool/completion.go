package metatool

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

const methodComplete = "completion/complete"

// complete answers completion/complete. It forwards the request to the server that owns the prompt
// or the resource template, under the server's own name. A reference may contain the id or the
// server's name. The controls treat it like rendering the prompt or reading the template, because
// its values come from there.
func (n *natives) complete(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	ref := rawjson.Get(r.Params, "ref")
	s := n.caller.upstreams.Snapshot()
	find, key := s.prompt, "name"
	switch rawjson.Text(rawjson.Get(ref, "type")) {
	case "ref/prompt":
	case "ref/resource":
		find, key = s.template, "uri"
	default:
		return nil, mcp.Errorf(mcp.KindInvalidParams, "completion/complete: ref.type must be ref/prompt or ref/resource")
	}
	e, err := find(rawjson.Text(rawjson.Get(ref, key)))
	if err != nil {
		return nil, err
	}
	call := newRead(r, n.caller.state.session(r), s.Catalog, e, methodComplete, nil)
	call.URI = e.URI
	return n.call(ctx, call, func(c *dispatch.Call) (json.RawMessage, error) {
		params := r.Params
		if c.Params != nil {
			params = c.Params
		}
		params, err := rawjson.SetPath(params, rawjson.Quote(e.Key().Name), "ref", key)
		if err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "completion/complete: %v", err)
		}
		return params, nil
	})
}
