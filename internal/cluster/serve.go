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
		n.work.Go(func() { succeed(n) })
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

// linkPeers and linkPeer are Peers and peer for the link.
func (n *Node) linkPeers() []link.Peer {
	peers := n.Peers()
	all := make([]link.Peer, len(peers))
	for i, p := range peers {
		all[i] = link.Peer{Inc: p.Inc, Name: p.Name, URL: p.URL}
	}
	return all
}

func (n *Node) linkPeer(inc string) (link.Peer, bool) {
	p, ok := n.peer(inc)
	return link.Peer{Inc: p.Inc, Name: p.Name, URL: p.URL}, ok
}
