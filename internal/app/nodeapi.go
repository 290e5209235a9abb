package app

import (
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
)

// A nodeRoute is a path that only the other nodes of a cluster reach, over the peer link.
type nodeRoute struct {
	path string // with a slash at its end, all paths below it
	// serve answers a request that another node makes for id. The context does not have id.
	serve func(w http.ResponseWriter, r *http.Request, id *identity.Identity)
}

// ServeNode serves a request of another node for the caller id, if the path is one that only nodes reach.
func (e *Engine) ServeNode(w http.ResponseWriter, r *http.Request, id *identity.Identity) (served bool) {
	for _, route := range e.nodeRoutes {
		if r.URL.Path == route.path || strings.HasSuffix(route.path, "/") && strings.HasPrefix(r.URL.Path, route.path) {
			route.serve(w, r, id)
			return true
		}
	}
	return false
}

// Holders returns the INCs of the nodes that hold the servers with scope: cluster, by the names of the
// servers. The INC is "" while no node is known to hold the server. A gateway that is one node has none.
func (e *Engine) Holders() map[string]string { return e.Agents.scoped.holders() }
