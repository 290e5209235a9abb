package catalog

import (
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// ToolIDs maps the tool names of servers to tool ids. For each catalog, the first call of a server
// makes the map of that server: a change of one list costs nothing for the tools of others.
type ToolIDs struct{ newest atomic.Pointer[namedTools] }

type namedTools struct {
	of      *Catalog
	servers sync.Map // from upstream to map[string]string, from the name of a tool to its id
}

// ID returns the tool_id of a server's tool, "" if the catalog does not have it.
func (t *ToolIDs) ID(c *Catalog, upstream, name string) string {
	now := t.newest.Load()
	if now == nil || now.of != c {
		now = &namedTools{of: c}
		t.newest.Store(now)
	}
	ids, known := now.servers.Load(upstream)
	if !known {
		made := map[string]string{}
		for _, e := range c.Of(upstream) {
			if e.Kind == primitive.KindTool {
				made[e.RawName] = e.ID
			}
		}
		ids = made
		now.servers.Store(upstream, made)
	}
	return ids.(map[string]string)[name]
}
