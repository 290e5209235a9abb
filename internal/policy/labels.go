package policy

import (
	"context"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Labels are the labels of tools and of sessions, for operators. Its fields do not change.
type Labels struct {
	State   *metatool.State
	Config  func() *config.Config
	Catalog func(ctx context.Context) *catalog.Catalog // that the caller of a request sees
}

// Rules returns what the rules of the configuration say of the tools that the caller of a request sees.
func (l Labels) Rules(ctx context.Context) flow.Listing {
	return flow.List(l.Config(), l.Catalog(ctx).Entries())
}

// Readings returns what the models of the open sessions have read.
func (l Labels) Readings(ctx context.Context) []flow.Reading { return l.State.Readings(ctx) }

// Clear forgets what the model of a session has read, and returns it. The error is an *mcp.Error.
func (l Labels) Clear(ctx context.Context, session string) (flow.Reading, error) {
	was, ok, err := l.State.ClearReading(ctx, session)
	switch {
	case err != nil:
		return was, mcp.Errorf(mcp.KindOverloaded, "the label of session %q is not cleared: the store does not take it: %w", text.Line(session, 80), err)
	case !ok:
		return was, mcp.Errorf(mcp.KindNotFound, "no open session %q here: weir flow sessions lists them; with --node, those of another gateway of the cluster", text.Line(session, 80))
	}
	return was, nil
}
