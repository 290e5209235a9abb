package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/mcp"
)

// startupLimit bounds how long a request waits for starting upstreams, counted from the start of
// the Gateway. Without the wait, a client that connects at once would see an empty catalog; without
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

// await delays a request that reads the catalog until the catalog is filled.
func (s *surface) await(ctx context.Context, r *mcp.Request) {
	if s.gateway.Catalog.firsts.over() || s.gateway.Catalog.listings.Full() { // full: the catalog of before the restart
		return
	}
	if limit := s.limitOf(ctx, r); limit != noWait {
		s.gateway.Catalog.firsts.await(ctx, limit)
	}
}

// limitOf returns how long r may wait. The limit depends on the servers that are not listed yet.
func (s *surface) limitOf(ctx context.Context, r *mcp.Request) startupLimit {
	switch r.Method {
	case "initialize", "server/discover":
		return forShape
	case "tools/list":
		if s.tools.Mode(ctx) != metatool.ModeGateway {
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
		if s.tools.Mode(ctx) == metatool.ModeGateway || s.tools.Names(ctx, name) {
			return noWait
		}
		return forCatalog
	}
	// An entry that is hidden from the caller is one that does not exist: it takes as long.
	if _, there := s.tools.View(ctx).Catalog.Lookup(id); there {
		return noWait
	}
	return forCatalog
}

// firstListings follows the start of the upstreams: whether an entry is there, and whether each upstream
// has been listed or has failed once. It is safe for concurrent use.
type firstListings struct {
	began time.Time
	entry chan struct{} // closed when the catalog gets its first entry
	once  sync.Once     // closes entry
	all   chan struct{} // closed when follow has returned
	end   context.CancelFunc
}

func newFirstListings() *firstListings {
	return &firstListings{began: time.Now(), entry: make(chan struct{}), all: make(chan struct{}), end: func() {}}
}

// follow runs wait in the background, which returns after the first attempt of each upstream or at the
// end of its context.
func (f *firstListings) follow(wait func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	f.end = cancel
	go func() {
		defer close(f.all)
		wait(ctx)
	}()
}

// found says that the catalog has an entry.
func (f *firstListings) found() { f.once.Do(func() { close(f.entry) }) }

// over reports whether each upstream has been listed or has failed.
func (f *firstListings) over() bool {
	select {
	case <-f.all:
		return true
	default:
		return false
	}
}

// await waits for the first start of the upstreams, within limit.
func (f *firstListings) await(ctx context.Context, limit startupLimit) {
	empty := time.NewTimer(limit.empty - time.Since(f.began))
	defer empty.Stop()
	select {
	case <-f.entry:
	case <-f.all:
		return
	case <-ctx.Done():
		return
	case <-empty.C:
		return
	}
	some := time.NewTimer(limit.some - time.Since(f.began))
	defer some.Stop()
	select {
	case <-f.all:
	case <-ctx.Done():
	case <-some.C:
	}
}
