package app

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/mcp"
)

// startupLimit bounds how long a request waits for starting upstreams, counted from the start of
// the Engine. Without the wait, a client that connects at once would see an empty catalog; without
// the limit, one slow server would block it.
type startupLimit struct {
	empty time.Duration // while no server is listed
	some  time.Duration // once some server is listed
}

var (
	// forCatalog applies to requests that show catalog entries.
	forCatalog = startupLimit{10 * time.Second, 4 * time.Second}
	// forShape applies to requests that only show which primitives exist: meta-tools and
	// capabilities.
	forShape = startupLimit{1500 * time.Millisecond, 1500 * time.Millisecond}
	noWait   = startupLimit{}
)

// A startupWait delays requests that read the catalog until the catalog is filled.
type startupWait struct {
	engine *Engine
	mode   func(ctx context.Context) metatool.Mode      // of a request
	names  func(ctx context.Context, name string) bool  // whether a tool can be called by a name now
	view   func(ctx context.Context) *metatool.Snapshot // what exists for the caller of a request
	next   mcp.Handler
}

// Serve implements mcp.Handler.
func (p *startupWait) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	select {
	case <-p.engine.first:
	default:
		if p.engine.listings.full.Load() {
			break // the catalog is that of before the restart
		}
		if limit := p.limitOf(ctx, r); limit != noWait {
			p.engine.filled(ctx, limit)
		}
	}
	return p.next.Serve(ctx, r)
}

// limitOf returns how long r may wait. The limit depends on the servers that are not listed yet.
func (p *startupWait) limitOf(ctx context.Context, r *mcp.Request) startupLimit {
	switch r.Method {
	case "initialize", "server/discover":
		return forShape
	case "tools/list":
		if p.mode(ctx) != metatool.ModeGateway {
			return forCatalog
		}
		return forShape
	case "resources/list", "resources/templates/list", "prompts/list", "resources/subscribe":
		return forCatalog
	case "tools/call":
	default:
		return noWait
	}
	arguments := r.Fields().Arguments
	id, name := "", rawjson.Text(r.Fields().Name)
	switch name {
	case metatool.ToolBrowse, metatool.ResourceBrowse, metatool.PromptBrowse:
		return forCatalog
	case metatool.ToolExecute, metatool.ToolHydrate:
		id = rawjson.Text(rawjson.Get(arguments, "tool_id"))
	case metatool.ResourceRead:
		id = rawjson.Text(rawjson.Get(arguments, "resource_id"))
	case metatool.PromptGet:
		id = rawjson.Text(rawjson.Get(arguments, "prompt_id"))
	default:
		if p.mode(ctx) == metatool.ModeGateway || p.names(ctx, name) {
			return noWait
		}
		return forCatalog
	}
	// An entry that is hidden from the caller is one that does not exist: it takes as long.
	if _, there := p.view(ctx).Catalog.Lookup(id); there {
		return noWait
	}
	return forCatalog
}

// filled waits for the first start of the upstreams, within limit.
func (e *Engine) filled(ctx context.Context, limit startupLimit) {
	empty := time.NewTimer(limit.empty - time.Since(e.Started))
	defer empty.Stop()
	select {
	case <-e.nonEmpty:
	case <-e.first:
		return
	case <-ctx.Done():
		return
	case <-empty.C:
		return
	}
	some := time.NewTimer(limit.some - time.Since(e.Started))
	defer some.Stop()
	select {
	case <-e.first:
	case <-ctx.Done():
	case <-some.C:
	}
}
