package cluster

import (
	"errors"
	"fmt"
)

// builds is the range of the versions of documents and peer links that this build understands. A build reads its
// own version and the one before, so nodes are upgraded one version at a time. Version 2 is the exception: its
// nodes speak over connections in another form, so version 1 is not in its range.
var builds = [2]int{2, 2}

// written returns the version in which a build writes what other nodes read: the newest one that all nodes
// present understand. It grows when the last node of an older build has left.
func written(proto [2]int, peers []Peer) int {
	least := proto[1]
	for _, p := range peers {
		if p.Proto[1] > 0 {
			least = min(least, p.Proto[1])
		}
	}
	return least
}

// foreign returns a node with which a build has no version in common.
func foreign(proto [2]int, peers []Peer) (Peer, bool) {
	for _, p := range peers {
		if p.Proto[1] > 0 && (p.Proto[1] < proto[0] || p.Proto[0] > proto[1]) {
			return p, true
		}
	}
	return Peer{}, false
}

// errForeign says that two builds do not understand each other.
var errForeign = errors.New("the two builds understand no common version of the cluster's documents: upgrade all nodes to a version between them first")

// enter waits until the nodes that are present are known, and until this build understands all of them. The document of
// a killed node is there for up to 20 seconds. It returns false when the node is closed.
func enter(n *Node, known <-chan struct{}) bool {
	select {
	case <-known:
	case <-n.ctx.Done():
		return false
	}
	for {
		p, found := foreign(n.o.proto, n.Peers())
		var err error
		if found {
			err = fmt.Errorf("the node %s runs weir %s, which understands the versions %d to %d, and this one %d to %d: %w",
				p.Name, p.Version, p.Proto[0], p.Proto[1], n.o.proto[0], n.o.proto[1], errForeign)
		}
		before := n.contact.refuse(err)
		if !found {
			return true
		}
		if before == nil || before.Error() != err.Error() {
			n.log.Error("this node does not join the cluster yet", "node", n.o.Name, "err", err)
		}
		if pause(n.ctx, retryEvery) != nil {
			return false
		}
	}
}
