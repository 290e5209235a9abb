package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/address"
)

// paths routes requests to the handlers of one configuration.
type paths struct {
	located bool         // requests have their source address, for the policy or the audit log
	agents  http.Handler // of /mcp
	routed  http.Handler // of /mcps/
	mux     http.Handler // of the other paths, and of all that a ServeMux cleans
}

// of returns the handler of a path. The paths of calls, /mcp and those below /mcps/, are found without
// the search of a ServeMux, which would take 3 % of the processor time of a call.
func (p *paths) of(path string) http.Handler {
	switch {
	case path == "/mcp":
		return p.agents
	case strings.HasPrefix(path, "/mcps/") && !strings.Contains(path, "//") && !strings.Contains(path, "/."):
		return p.routed
	}
	return p.mux
}

// ServeHTTP implements http.Handler.
func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.located {
		r = withSource(r)
	}
	p.of(r.URL.Path).ServeHTTP(w, r)
}

// asksSource reports whether a rule of a policy may look at the address where requests come from.
func asksSource(p *config.Policy) bool {
	return slices.ContainsFunc(p.Rules, func(r config.PolicyRule) bool { return strings.Contains(r.When, "source") })
}

// withSource returns a request with the address where it comes from in its route. An address that a
// proxy hides is not known.
func withSource(r *http.Request) *http.Request {
	ip, known := address.Source(r.Header, r.RemoteAddr)
	if !known {
		return r
	}
	route := identity.RouteOf(r.Context())
	route.Source = ip.String()
	return r.WithContext(identity.WithRoute(r.Context(), route))
}
