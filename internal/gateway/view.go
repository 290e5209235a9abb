package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/upstream/listings"
	"github.com/weir-mcp/weir/internal/upstream/membership"
)

// Views are what the callers of a gateway see of it: of its catalog, its servers and its profiles. It is
// safe for concurrent use.
type Views struct {
	catalog *Catalog
	agents  func() *membership.Agents
	judge   *policy.Judge
	manager *upstream.Manager // set before start
	config  func() *config.Config
	health  func() *Health
	redact  func() func([]byte) []byte // of texts of tools
}

// Of returns the part of the catalog that exists for the caller of a request. Operators see all
// that servers list for all callers and for themselves: those by role, those by token, and the user of
// this machine where no token is needed. It waits for what servers list for the caller.
func (v *Views) Of(ctx context.Context) *metatool.Snapshot {
	v.awaitOwn(ctx)
	return v.now(ctx)
}

// now is Of without a wait.
func (v *Views) now(ctx context.Context) *metatool.Snapshot {
	d := v.judge.Calls()
	if d == nil || v.operates(identity.From(ctx)) {
		return v.whole(ctx)
	}
	return d.View(ctx)
}

// SeesAll reports whether the caller of a request sees the sessions, figures and events of all
// callers. Operators do.
func (v *Views) SeesAll(ctx context.Context) bool { return v.operates(identity.From(ctx)) }

func (v *Views) operates(id *identity.Identity) bool {
	auth := &v.config().Auth
	return id.HasRole(callers.RoleOperator) || auth.Operates(id.Principal) || !auth.Required()
}

// Hide removes from a health report the upstreams of which nothing exists for the caller of a
// request, and counts of others what exists. Of a server that lists for each caller it counts what
// this one sees. A server with a credential for each caller has the state that it has for this one.
func (v *Views) Hide(ctx context.Context, h *Health) {
	if !v.SeesAll(ctx) {
		v.ownStates(h, identity.From(ctx).Principal)
	}
	whole, seen := v.whole(ctx), v.now(ctx)
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
			n := map[primitive.Kind]int{}
			for _, e := range some {
				n[e.Kind]++
			}
			u.Tools, u.Prompts = n[primitive.KindTool], n[primitive.KindPrompt]
			u.Resources = n[primitive.KindResource] + n[primitive.KindTemplate]
			h.Upstreams[name] = u
		}
	}
}

// ownStates replaces the states that tell of the sign-ins of others.
func (v *Views) ownStates(h *Health, principal string) {
	for name, u := range h.Upstreams {
		up, ok := v.manager.Upstream(name)
		if !ok {
			continue
		}
		if state, own := up.StateOf(principal); own {
			u.State, u.Since, u.Error = string(state), "", ""
			h.Upstreams[name] = u
		}
	}
}

// Health returns the health of the gateway for the caller of a request, after a wait for what servers
// list for that caller.
func (v *Views) Health(ctx context.Context) *Health {
	v.awaitOwn(ctx)
	h := v.health()
	v.Hide(ctx, h)
	return h
}

// Catalog returns the CatalogInfo for the caller of a request: counts of what exists for the caller,
// changes of those entries only, and no findings if something is hidden.
func (v *Views) Catalog(ctx context.Context, since time.Time) *CatalogInfo {
	info := v.catalog.Info(since)
	info.Profiles = v.profiles(ctx)
	seen := v.Of(ctx).Catalog
	n := seen.Kinds()
	info.Tools, info.Resources, info.Prompts = n[primitive.KindTool], n[primitive.KindResource]+n[primitive.KindTemplate], n[primitive.KindPrompt]
	if seen.Len() == v.whole(ctx).Catalog.Len() {
		return info
	}
	info.Findings, info.Partial = []string{}, nil
	unseen := func(c catalog.Change) bool {
		_, known := seen.Lookup(c.ID)
		return !known
	}
	info.Changes = slices.DeleteFunc(info.Changes, unseen)
	info.Recent = slices.DeleteFunc(info.Recent, func(c listings.TimedChange) bool { return unseen(c.Change) })
	return info
}

// ownWait bounds how long a view of the catalog waits for what servers list for its caller.
const ownWait = 2 * time.Second

// whole returns all entries that may exist for the caller of a request, whatever policy and profile
// say: those that all callers share, and what servers list for this one.
func (v *Views) whole(ctx context.Context) *metatool.Snapshot {
	if d := v.judge.Calls(); d != nil {
		return d.Whole(ctx)
	}
	return metatool.WholeOf(ctx, v.catalog, v.catalog.own(v.config()))
}

// awaitOwn waits, within ownWait, for lists of the caller of a request that are not known yet.
func (v *Views) awaitOwn(ctx context.Context) {
	if own := v.catalog.own(v.config()); own != nil && len(own.OwnLists(ctx).Missing) > 0 {
		own.AwaitOwnLists(ctx, ownWait)
	}
}

// profiles returns the profiles that the caller of a request may open; operators see all.
func (v *Views) profiles(ctx context.Context) (list []ProfileInfo) {
	c, d, id := v.config(), v.judge.Calls(), identity.From(ctx)
	if d == nil {
		return nil
	}
	for _, p := range c.Profiles {
		if !v.operates(id) && !policy.OpensProfile(c, p.Name, id) {
			continue
		}
		mode := p.Mode
		if mode == "" {
			mode = c.Mode
		}
		n := d.View(policy.AtProfile(ctx, p.Name)).Catalog.Kinds()
		list = append(list, ProfileInfo{
			Name: p.Name, Path: "/mcp/" + p.Name, Mode: string(mode),
			Tools: n[primitive.KindTool], Resources: n[primitive.KindResource] + n[primitive.KindTemplate], Prompts: n[primitive.KindPrompt],
		})
	}
	return list
}

// Tools returns the tools that fit a query, of those that exist for the caller of a request.
func (v *Views) Tools(ctx context.Context, q tools.Query) tools.List {
	return tools.Find(v.Of(ctx).Catalog, q, v.redact())
}
