package gateway

import (
	"net/http"

	"github.com/weir-mcp/weir/internal/identity"
)

// ServeNode serves a request of another node for the caller id, if the path is one that only nodes reach.
func (g *Gateway) ServeNode(w http.ResponseWriter, r *http.Request, id *identity.Identity) (served bool) {
	return g.nodeRoutes.Serve(w, r, id)
}

// Holders returns the INCs of the nodes that hold the servers with scope: cluster, by the names of the
// servers. The INC is "" while no node is known to hold the server. A gateway that is one node has none.
func (g *Gateway) Holders() map[string]string { return g.placement.Servers.Holders() }

// OpenSessions returns how many sessions live in this process: those with an id that outlasts it, from their
// handshake on, and others that have used a gateway.
func (g *Gateway) OpenSessions() int { return g.Store.OpenSessions() + g.Calls.state.Others() }
