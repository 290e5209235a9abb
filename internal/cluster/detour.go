package cluster

import (
	"context"
	"net/http"
	"time"
)

// mendEvery is how often a peer link that does not answer is tried again.
const mendEvery = time.Second

// detour makes requests for a node go through a third one until the peer link of the node answers. The node lives.
// Connections that are idle have stalled with the others: each would cost a request the time in which that is found.
//
//	request ─▶ a link that stalls, or takes no connection ─▶ detour ─▶ requests ─▶ third node ─▶ the node
//	                                                           └─ a ping each second ─▶ answered: the link again
func detour(n *Node, inc string) {
	n.mu.Lock()
	p := n.peers[inc]
	if _, known := n.detours[inc]; known || p == nil || n.ctx.Err() != nil {
		n.mu.Unlock()
		return
	}
	n.detours[inc] = struct{}{}
	name := p.Name
	n.work.Go(func() { mend(n, inc, name) })
	n.mu.Unlock()
	n.log.Warn("the peer link of a node does not answer: requests go through a third node until it does", "node", name, "inc", inc)
	dropExchanges(n, inc)
	n.links.CloseIdleConnections()
}

// detoured reports whether requests for a node go through a third one.
func detoured(n *Node, inc string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, is := n.detours[inc]
	return is
}

// mend ends a detour when the link answers, or the node is gone.
func mend(n *Node, inc, name string) {
	defer func() {
		n.mu.Lock()
		delete(n.detours, inc)
		n.mu.Unlock()
	}()
	for pause(n.ctx, mendEvery) == nil {
		if _, there := n.peer(inc); !there {
			return
		}
		if answers(n, inc) {
			n.log.Info("the peer link of a node answers again", "node", name, "inc", inc)
			return
		}
	}
}

// answers reports whether a node answers a ping over its peer link, and not through a third node.
func answers(n *Node, inc string) bool {
	ctx, cancel := context.WithTimeout(n.ctx, linkTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, pathPing, nil)
	if err != nil {
		return false
	}
	address(n, inc, r)
	resp, err := n.send(inc, r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}
