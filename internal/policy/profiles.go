package policy

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// profilesOf converts the configured profiles.
func profilesOf(profiles []*config.Profile) (list []metatool.Profile) {
	for _, p := range profiles {
		one := metatool.Profile{Name: p.Name, Include: p.Include, Exclude: p.Exclude}
		if p.Mode != "" {
			mode, _ := metatool.ParseMode(string(p.Mode)) // the configuration has checked it
			one.Mode = &mode
		}
		list = append(list, one)
	}
	return list
}

// OpensProfile reports whether a caller may open the profile of a name. It may not open a profile
// that does not exist.
func OpensProfile(c *config.Config, name string, id *identity.Identity) bool {
	i := slices.IndexFunc(c.Profiles, func(p *config.Profile) bool { return p.Name == name })
	if i < 0 {
		return false
	}
	p := c.Profiles[i]
	switch {
	case len(p.Groups)+len(p.Principals) == 0:
		return true
	case slices.ContainsFunc(p.Principals, func(pattern string) bool { return text.Match(pattern, id.Principal) }):
		return true
	}
	return !id.GroupsMissing && slices.ContainsFunc(p.Groups, id.InGroup)
}

// AtProfile returns a context of a request that was made to a profile.
func AtProfile(ctx context.Context, name string) context.Context {
	route := identity.RouteOf(ctx)
	route.Profile = name
	return identity.WithRoute(ctx, route)
}

// WithinProfile returns a Handler for connections that carry many messages. It refuses a message at a
// profile that the caller may not open, or not any more. Other messages go to next.
func WithinProfile(now func() *config.Config, next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if name := identity.RouteOf(ctx).Profile; name != "" && !OpensProfile(now(), name, identity.From(ctx)) {
			return nil, NoProfile(name)
		}
		return next.Serve(ctx, r)
	})
}

// NoProfile returns the error for a profile that does not exist for a caller. It does not tell whether
// the profile exists for others.
func NoProfile(name string) error {
	return mcp.Errorf(mcp.KindNotFound, "there is no profile %q for this caller; the operator makes one under profiles in the configuration, or opens it by its groups and principals", text.Line(name, 80))
}

// Holder returns the caller who has the token of a name in a configuration, nil if there is none.
func Holder(c *config.Config, name string) *identity.Identity {
	who := callers.Policy(c, nil)
	return who.Named(name)
}
