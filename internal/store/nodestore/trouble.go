package nodestore

import (
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
)

// Trouble says why the store of a cluster is of no use to a node, and what operators do; "" if the store answers. Strangers
// may read it, so only the log has the cause.
func Trouble(n *cluster.Node) string {
	joined, refused := cluster.Joined(n)
	silence := cluster.Silence(n)
	switch {
	case refused != nil:
		return "the nodes of the cluster run another version, which does not understand this one: operators find both in the log"
	case !joined:
		return "this node has just started and the store of its cluster does not answer: operators find the cause in the log, and look at the NATS servers of the key store"
	case silence > 0 || cluster.Apart(n):
		return fmt.Sprintf("the store of the cluster has not acknowledged this node for %v: operators find the cause in the log, and look at the NATS servers of the key store", silence.Round(time.Second))
	}
	return ""
}
