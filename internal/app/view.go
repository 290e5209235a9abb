package app

import (
	"context"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool"
)

// ViewOf returns the part of the catalog that exists for the caller of a request. Operators see all
// that servers list for all callers and for themselves: those by role, those by token, and the user of
// this machine where no token is needed. It waits for what servers list for the caller.
func ViewOf(ctx context.Context, e *Engine) *metatool.Snapshot {
	awaitOwn(ctx, e)
	return viewNow(ctx, e)
}

// viewNow is ViewOf without a wait.
func viewNow(ctx context.Context, e *Engine) *metatool.Snapshot {
	d := e.direct.Load()
	if d == nil || operates(e, identity.From(ctx)) {
		return wholeOf(ctx, e)
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
// request, and counts of others what exists. Of a server that lists for each caller it counts what
// this one sees. A server with a credential for each caller has the state that it has for this one.
func HideFrom(ctx context.Context, e *Engine, h *Health) {
	if !SeesAll(ctx, e) {
		ownStates(e, h, identity.From(ctx).Principal)
	}
	whole, seen := wholeOf(ctx, e), viewNow(ctx, e)
	for name, u := range h.Upstreams {
		if !u.OwnLists && whole.Catalog.Len() == seen.Catalog.Len() {
			continue
		}
		all, some := whole.Catalog.Of(name), seen.Catalog.Of(name)
		switch {
		case len(all) == len(some) && !u.OwnLists:
		case len(some) == 0 && len(all) > 0:
			delete(h.Upstreams, name)
		default:
			n := map[catalog.Kind]int{}
			for _, e := range some {
				n[e.Kind]++
			}
			u.Tools, u.Prompts = n[catalog.KindTool], n[catalog.KindPrompt]
			u.Resources = n[catalog.KindResource] + n[catalog.KindTemplate]
			h.Upstreams[name] = u
		}
	}
}

// ownStates replaces the states that tell of the sign-ins of others.
func ownStates(e *Engine, h *Health, principal string) {
	for name, u := range h.Upstreams {
		up, ok := e.manager.Upstream(name)
		if !ok {
			continue
		}
		if state, own := up.StateOf(principal); own {
			u.State, u.Since, u.Error = string(state), "", ""
			h.Upstreams[name] = u
		}
	}
}

// HealthSeen returns the health of an engine for the caller of a request, after a wait for what servers
// list for that caller.
func HealthSeen(ctx context.Context, e *Engine) *Health {
	awaitOwn(ctx, e)
	h := e.Health()
	HideFrom(ctx, e, h)
	return h
}

// CatalogSeen returns the CatalogInfo for the caller of a request: counts of what exists for the caller,
// changes of those entries alone, and no findings if something is hidden.
func CatalogSeen(ctx context.Context, e *Engine, since time.Time) *CatalogInfo {
	info := e.CatalogInfo(since)
	info.Profiles = profilesSeen(ctx, e)
	seen := ViewOf(ctx, e).Catalog
	n := Kinds(seen)
	info.Tools, info.Resources, info.Prompts = n[catalog.KindTool], n[catalog.KindResource]+n[catalog.KindTemplate], n[catalog.KindPrompt]
	if seen.Len() == wholeOf(ctx, e).Catalog.Len() {
		return info
	}
	info.Findings, info.Partial = []string{}, nil
	unseen := func(c catalog.Change) bool {
		_, known := seen.Lookup(c.ID)
		return !known
	}
	info.Changes = slices.DeleteFunc(info.Changes, unseen)
	info.Recent = slices.DeleteFunc(info.Recent, func(c TimedChange) bool { return unseen(c.Change) })
	return info
}
