package app

import (
	"context"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/upstream"
)

// ownWait bounds how long a view of the catalog waits for what servers list for its caller.
const ownWait = 2 * time.Second

// callersLists returns what servers list for single callers, nil if no server of a configuration does.
func callersLists(e *Engine, c *config.Config) metatool.OwnLists {
	if len(listingPerCaller(c)) == 0 {
		return nil
	}
	return e.manager
}

// listingPerCaller returns the names of the servers that list for each caller.
func listingPerCaller(c *config.Config) (names []string) {
	for _, s := range c.Servers {
		if s.ListsPerCaller() && !s.Disabled {
			names = append(names, s.Name)
		}
	}
	return names
}

// wholeOf returns all entries that may exist for the caller of a request, whatever policy and profile
// say: those that all callers share, and what servers list for this one.
func wholeOf(ctx context.Context, e *Engine) *metatool.Snapshot {
	if d := e.direct.Load(); d != nil {
		return d.Whole(ctx)
	}
	return metatool.WholeOf(ctx, e, callersLists(e, e.config.Load()))
}

// awaitOwn waits, within ownWait, for lists of the caller of a request that are not known yet.
func awaitOwn(ctx context.Context, e *Engine) {
	if own := callersLists(e, e.config.Load()); own != nil && len(own.OwnLists(ctx).Missing) > 0 {
		own.AwaitOwnLists(ctx, ownWait)
	}
}

// served is an Engine as its gateway sees it.
type served struct{ *Engine }

// MissingOwn returns what agents hear of servers whose lists for the caller are not known.
func (s served) MissingOwn(servers []string) (all []metatool.Missing) {
	s.manager.Each(func(of *config.Server, u *upstream.Upstream) {
		if u != nil && slices.Contains(servers, of.Name) {
			all = append(all, metatool.Missing{Upstream: of.Name, Namespace: of.Namespace, Why: "its entries for this caller are being listed"})
		}
	})
	return all
}
