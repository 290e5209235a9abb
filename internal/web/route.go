package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/address"
)

// calls serves the paths of calls, /mcp and those below /mcps/, without the search of next, a
// ServeMux, which would take 3 % of the processor time of a call. Paths that a ServeMux cleans are
// left to it.
func calls(all, each, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/mcp":
			all.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/mcps/") && !strings.Contains(path, "//") && !strings.Contains(path, "/."):
			each.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// located tells the policy where requests come from, if an expression of it may look at that or
// always is set. An
// address that a proxy hides is not known.
func located(p *config.Policy, always bool, next http.Handler) http.Handler {
	if !always && !slices.ContainsFunc(p.Rules, func(r config.PolicyRule) bool { return strings.Contains(r.When, "source") }) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, known := address.Source(r.Header, r.RemoteAddr)
		if known {
			route := identity.RouteOf(r.Context())
			route.Source = ip.String()
			r = r.WithContext(identity.WithRoute(r.Context(), route))
		}
		next.ServeHTTP(w, r)
	})
}
