package app

import (
	"context"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/identity"
)

// ViewOf returns the part of the catalog that exists for the caller of a request. Operators see all of
// it: those by role, those by token, and the user of this machine where no token is needed.
func ViewOf(ctx context.Context, e *Engine) *gateway.Snapshot {
	d := e.direct.Load()
	if d == nil || operates(e, identity.From(ctx)) {
		return e.Snapshot()
	}
	return d.View(ctx)
}

// SeesAll reports whether the caller of a request sees the sessions, figures and events of all
// callers. Operators do.
func SeesAll(ctx context.Context, e *Engine) bool { return operates(e, identity.From(ctx)) }

func operates(e *Engine, id *identity.Identity) bool {
	auth := &e.config.Load().Auth
	return id.HasRole(RoleOperator) || auth.Operates(id.Principal) || !auth.Required()
}

// HideFrom removes from a health report the upstreams of which nothing exists for the caller of a
// request, and counts of others what exists.
func HideFrom(ctx context.Context, e *Engine, h *Health) {
	whole, seen := e.Snapshot(), ViewOf(ctx, e)
	if whole.Catalog.Len() == seen.Catalog.Len() {
		return
	}
	for name, u := range h.Upstreams {
		all, some := whole.Catalog.Of(name), seen.Catalog.Of(name)
		switch {
		case len(all) == len(some):
		case len(some) == 0:
			delete(h.Upstreams, name)
		default:
			n := kindsOf(some)
			u.Tools, u.Prompts = n[catalog.KindTool], n[catalog.KindPrompt]
			u.Resources = n[catalog.KindResource] + n[catalog.KindTemplate]
			h.Upstreams[name] = u
		}
	}
}

// CatalogSeen returns the CatalogInfo for the caller of a request: counts of what exists for the caller,
// changes of those entries alone, and no findings if something is hidden.
func CatalogSeen(ctx context.Context, e *Engine) *CatalogInfo {
	info := e.CatalogInfo()
	info.Profiles = profilesSeen(ctx, e)
	seen := ViewOf(ctx, e).Catalog
	if seen.Len() == e.Snapshot().Catalog.Len() {
		return info
	}
	n := Kinds(seen)
	info.Tools, info.Resources, info.Prompts = n[catalog.KindTool], n[catalog.KindResource]+n[catalog.KindTemplate], n[catalog.KindPrompt]
	info.Findings, info.Partial = []string{}, nil
	info.Changes = slices.DeleteFunc(info.Changes, func(c catalog.Change) bool {
		_, known := seen.Lookup(c.ID)
		return !known
	})
	return info
}
