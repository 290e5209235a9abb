package metatool

import (
	"context"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/search/feedback"
)

// preference returns what was learnt for the search of a kind, nil if there is nothing. Only tools are run.
func preference(kind primitive.Kind, learnt *feedback.Search) search.Preference {
	if learnt == nil || kind != primitive.KindTool {
		return nil
	}
	return learnt
}

// showTools says which tools the answer to a search of a call has.
func showTools(c *dispatch.Call, learnt *feedback.Search, cards []catalog.Card) {
	ids := make([]string, len(cards))
	for i := range cards {
		ids[i] = cards[i].ID
	}
	learnt.Shown(c.Request.Session, ids)
}

// learns returns the step that learns from a run after a search. A dry run does not reach it, and a result
// of the cache does. There is no step if nothing is learnt.
func (g *Gateway) learns() []dispatch.Step {
	if g.opts.Learned == nil {
		return nil
	}
	return []dispatch.Step{{Phase: dispatch.PhaseFill, Name: "learn", After: func(ctx context.Context, c *dispatch.Call, err error) error {
		if err == nil {
			g.opts.Learned.Ran(ctx, c.Request.Session, c.Entry.ID, func() bool { return dispatch.Cacheable(c.Reply) })
		}
		return err
	}}}
}
