package app

import (
	"context"

	"github.com/weir-mcp/weir/internal/metatool/tools"
)

// Tools returns the tools that fit a query, of those that exist for the caller of a request.
func (v *Views) Tools(ctx context.Context, q tools.Query) tools.List {
	return tools.Find(v.Of(ctx).Catalog, q, v.redact())
}
