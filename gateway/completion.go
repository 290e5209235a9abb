package gateway

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// complete answers completion/complete: it goes to the server that owns the
// prompt or resource template, under that server's own name. A reference names it
// by its id, or by its own name or URI template where one server has that.
func (g *Gateway) complete(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	ref := rawjson.Get(r.Params, "ref")
	kind, key := catalog.KindPrompt, "name"
	switch rawjson.Text(rawjson.Get(ref, "type")) {
	case "ref/prompt":
	case "ref/resource":
		kind, key = catalog.KindTemplate, "uri"
	default:
		return nil, mcp.Errorf(mcp.KindInvalidParams, "completion/complete: ref.type must be ref/prompt or ref/resource")
	}
	name := rawjson.Text(rawjson.Get(ref, key))
	e, err := g.referred(kind, name)
	if err != nil {
		return nil, err
	}
	own := e.RawName
	if kind == catalog.KindTemplate {
		own = e.URI
	}
	params, err := rawjson.SetPath(r.Params, rawjson.Quote(own), "ref", key)
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

// referred finds the prompt or template that a reference names.
func (g *Gateway) referred(kind catalog.Kind, name string) (*catalog.Entry, error) {
	from := g.opts.Upstreams.Snapshot().Catalog
	if e, ok := from.Lookup(name); ok && e.Kind == kind {
		return e, nil
	}
	var found *catalog.Entry
	for _, e := range from.Entries() {
		if e.Kind != kind || e.RawName != name && e.URI != name || kind == catalog.KindTemplate && e.URI != name {
			continue
		}
		if found != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "two servers offer %q: %q and %q; name it by its id, %s or %s", cutChars(name, 120), found.Upstream, e.Upstream, found.ID, e.ID)
		}
		found = e
	}
	if found == nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "there is no %s %q", map[catalog.Kind]string{catalog.KindPrompt: "prompt", catalog.KindTemplate: "resource template"}[kind], cutChars(name, 120))
	}
	return found, nil
}
