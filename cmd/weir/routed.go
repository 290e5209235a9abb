package main

import (
	"net/http"
	"time"

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

// HTTPTarget implements router.Endpoint.
func (r routed) HTTPTarget() (url string, header http.Header, ok bool) {
	t, ok := r.Target()
	if !ok {
		return "", nil, false
	}
	return t.URL.String(), t.Header, true
}

// Timeout implements router.Endpoint.
func (r routed) Timeout() time.Duration { return r.Config().Timeout }
