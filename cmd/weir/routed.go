package main

import (
	"github.com/weir-mcp/weir/router"
	"github.com/weir-mcp/weir/upstream"
)

// routed is an upstream as the router wants it. Two of one upstream are equal.
type routed struct{ *upstream.Upstream }

var _ router.Upstream = routed{}

// findUpstream implements router.Options.Find.
func (e *engine) findUpstream(name string) (router.Upstream, bool) {
	u, ok := e.manager.Upstream(name)
	return routed{u}, ok
}

// Target implements router.Endpoint.
func (r routed) Target() (router.Target, bool) {
	t, ok := r.Upstream.Target()
	return router.Target(t), ok
}
