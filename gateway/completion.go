package gateway

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// complete answers completion/complete: it goes to the server that owns the
// prompt or resource template, under that server's own name. A reference names it
// by its id, or by what its server calls it.
func (g *Gateway) complete(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	ref := rawjson.Get(r.Params, "ref")
	s := g.opts.Upstreams.Snapshot()
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
	params, err := rawjson.SetPath(r.Params, rawjson.Quote(e.Key().Name), "ref", key)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "completion/complete: %v", err)
	}
	call := &Call{Request: r, Entry: e, state: g.state.session(r.Session)}
	result, err := g.callUpstream(ctx, call, "completion/complete", params)
	if err != nil {
		return nil, g.redactError(err)
	}
	return result, nil
}
