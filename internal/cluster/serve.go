package cluster

import (
	"crypto/tls"
	"net"
	"net/http"

	"github.com/weir-mcp/weir/internal/link"
)

// Link returns the way to the other nodes.
func (n *Node) Link() *link.Link { return n.link }

// Serve serves the requests of other nodes at a listener. handler gets those that are for this node; link.Caller
// says who makes them. config asks for certificates of the cluster; nil does not encrypt, for tests.
func (n *Node) Serve(l net.Listener, config *tls.Config, handler http.Handler) *link.Server {
	n.mu.Lock()
	if n.ctx.Err() == nil {
		n.work.Go(func() {
			err := n.health.succeed(n.o.Name, n.o.URL)
			// If this node has not joined, the documents of these nodes end before it does.
			if joined, _ := Joined(n); err != nil && joined && n.ctx.Err() == nil {
				n.log.Warn("the nodes before this one are not known", "err", err)
			}
		})
	}
	n.mu.Unlock()
	return n.link.Serve(l, config, handler)
}

// answer serves the requests that nodes make for themselves.
func (n *Node) answer(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case pathPing:
		w.Header().Set(headerState, standing(n))
		w.WriteHeader(http.StatusNoContent)
	case pathLeave:
		serveLeave(n, w, r)
	default:
		return false
	}
	return true
}
