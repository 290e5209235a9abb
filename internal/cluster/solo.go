package cluster

import (
	"github.com/weir-mcp/weir/internal/lease"
	"github.com/weir-mcp/weir/internal/store"
)

// Solo returns the node of a gateway that shares its documents with no other process. Its INC is "", so ids and handles
// name no node, and every other INC is gone. Claims are its own at once and are never lost. It has no peers, no messages
// and no goroutines, and serves sessions itself. Close ends it.
func Solo(docs store.Docs) *Node {
	n := newNode(Options{Docs: docs})
	n.contact.join()
	n.lease = lease.Sole("")
	n.life = &life{ready: make(chan struct{}), fenced: make(chan struct{}), stop: func() {}}
	close(n.life.ready)
	return n
}
