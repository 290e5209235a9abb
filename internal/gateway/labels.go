package gateway

import (
	"context"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/policy"
)

// Labels returns the labels of tools and of sessions, for operators.
func (g *Gateway) Labels() policy.Labels {
	return policy.Labels{State: g.Calls.state, Config: g.Config, Catalog: func(ctx context.Context) *catalog.Catalog { return g.Views.Of(ctx).Catalog }}
}
