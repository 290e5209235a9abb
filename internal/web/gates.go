package web

import (
	"net/http"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
)

// gate checks a request, or adds values that handlers need, before a handler gets it.
type gate struct {
	name string
	// pass returns the request for the next gate. ok is false if the gate has answered the request.
	pass func(w http.ResponseWriter, r *http.Request) (passed *http.Request, ok bool)
}

// gated is a handler behind gates, which requests pass in their order.
type gated struct {
	gates []gate
	next  http.Handler
}

// ServeHTTP implements http.Handler.
func (g *gated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ok := true
	for i := range g.gates {
		if r, ok = g.gates[i].pass(w, r); !ok {
			return
		}
	}
	g.next.ServeHTTP(w, r)
}

// pages returns the gates of paths that reach all upstreams.
func (f *Server) pages(g *guard.Guard) []gate {
	return []gate{{"guard", g.Pass}, {"scope", f.unscoped}}
}

// surfaces returns the gates of endpoints for agents that reach all upstreams. Such an endpoint must not be
// one of the upstreams. The loop is looked for before the token, because weir would not have a token for
// itself.
func (f *Server) surfaces(g *guard.Guard, more ...gate) []gate {
	return append(append([]gate{{"loop", f.gateway.Agents.Loops.Pass}}, f.pages(g)...), more...)
}

// agentGates returns the gates of /mcp behind a guard.
func (f *Server) agentGates(g *guard.Guard) []gate {
	return f.surfaces(g, gate{"mode", inMode}, gate{"attach", f.attached.pass})
}

// wholly returns handlers behind the gates of pages.
func (f *Server) wholly(g *guard.Guard) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return &gated{f.pages(g), next} }
}

// unscoped refuses tokens that are limited to some agents on paths that reach all of them.
func (f *Server) unscoped(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	if principal := guard.Principal(r.Context()); f.gateway.Config().Auth.Scoped(principal) {
		guard.Refuse(w, r, http.StatusForbidden, errScoped(principal, r.URL.Path))
		return nil, false
	}
	return r, true
}

func errScoped(principal, path string) error {
	return mcp.Errorf(mcp.KindPermissionDenied, "the token of %q is for single agents (auth.tokens[].agents), at /mcps/NAME/mcp; %s reaches all of them", principal, path)
}
