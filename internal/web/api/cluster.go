package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// Cluster is the cluster of a gateway. Its methods are called concurrently.
type Cluster interface {
	// Status returns the nodes as this one sees them. The caller may change them.
	Status() ClusterStatus
	// Drain makes a node that an INC names take no new work. It returns when the node has agreed. The
	// error is an *mcp.Error.
	Drain(ctx context.Context, inc string) error
	// Pass sends a request to a node in the name of the caller in its context, and writes the answer. The error
	// is an *mcp.Error, and says that nothing was written.
	Pass(n ClusterNode, w http.ResponseWriter, r *http.Request) error
}

// ClusterStatus is the answer of cluster.
type ClusterStatus struct {
	Nodes []ClusterNode `json:"nodes"` // by name
	// Servers are those with scope: cluster, by name.
	Servers []ClusterServer `json:"servers"`
	// Warnings name settings about which the nodes do not agree.
	Warnings []string `json:"warnings"`
}

// ClusterNode is one node.
type ClusterNode struct {
	Name     string  `json:"name"`
	Inc      string  `json:"inc"`  // the life of the node, which ids of sessions name
	Self     bool    `json:"self"` // the node that answers
	State    string  `json:"state"`
	Version  string  `json:"version,omitempty"`
	Proto    [2]int  `json:"proto"`            // versions of the peer link and of documents that it understands
	URL      string  `json:"url,omitempty"`    // of its peer link, for operators only
	Config   string  `json:"config,omitempty"` // hash of its configuration
	Calls    int     `json:"calls"`            // requests in flight
	Sessions int     `json:"sessions"`         // that have used the gateway
	CPU      float64 `json:"cpu"`              // cores that it used lately
	Started  int64   `json:"started"`          // seconds since 1970
	SkewMS   int64   `json:"skew_ms"`          // how far its clock is ahead, in milliseconds
	Skewed   bool    `json:"skewed"`           // the clock differs by more than is harmless
}

// ClusterServer is a server that runs at one node.
type ClusterServer struct {
	Name string `json:"name"`
	Node string `json:"node,omitempty"` // the name of its holder; missing while no node has it
	Inc  string `json:"inc,omitempty"`  // of its holder
}

// clustered serves the paths of a gateway that shares its store.
type clustered struct{ a *API }

// routes are the routes about nodes.
func (c *clustered) routes() []route {
	return []route{
		{method: http.MethodGet, path: "cluster", right: mayLook, common: true, summary: "The nodes of the cluster; 404 for a gateway of one node", answer: ClusterStatus{}, serve: c.nodes},
		{method: http.MethodGet, path: "usage", right: mayLook, summary: "The cost of calls since the start, of all nodes of a cluster or of one", answer: UsageOfNodes{}, serve: c.usage},
		{method: http.MethodPost, path: "cluster/nodes/{node}/drain", right: mayOperate, common: true, summary: "Make a node take no new work", body: struct{}{}, answer: ClusterNode{}, serve: c.drain},
	}
}

// ErrOneNode says that the gateway has no cluster.
var ErrOneNode = mcp.Errorf(mcp.KindNotFound, "this gateway is no node of a cluster: store: nats://HOST:PORT makes several gateways act as one (docs/cluster.md)")

// nodes serves cluster. Viewers learn no addresses of peer links: these are in the operator's network.
func (c *clustered) nodes(w http.ResponseWriter, r *http.Request) error {
	if c.a.o.Cluster == nil {
		return ErrOneNode
	}
	s := c.a.o.Cluster.Status()
	if !c.a.operates(identity.From(r.Context())) {
		for i := range s.Nodes {
			s.Nodes[i].URL = ""
		}
	}
	return write(w, s)
}

// drain serves cluster/nodes/{node}/drain.
func (c *clustered) drain(w http.ResponseWriter, r *http.Request) error {
	if err := decode(w, r, &struct{}{}); err != nil {
		return err
	}
	if c.a.o.Cluster == nil {
		return ErrOneNode
	}
	n, err := NodeNamed(c.a.o.Cluster.Status().Nodes, r.PathValue("node"))
	if err != nil {
		return err
	}
	c.a.o.Operated(r.Context(), audit.Role, "", n.Name, "", "drains the node "+n.Inc)
	c.a.o.Logger.Info("an operator drains a node", "node", n.Name, "inc", n.Inc, "principal", identity.From(r.Context()).Principal)
	if err := c.a.o.Cluster.Drain(r.Context(), n.Inc); err != nil {
		return err
	}
	n.State = nodeDraining
	return write(w, n)
}

// nodeDraining is the state of a node that takes no new work.
const nodeDraining = "draining"

// NodeNamed returns the node that a name or an INC names. The error is an *mcp.Error, and names the nodes that are
// there.
func NodeNamed(all []ClusterNode, name string) (ClusterNode, error) {
	var names, incs []string
	var found ClusterNode
	for _, n := range all {
		if n.Inc == name {
			return n, nil
		}
		names = append(names, visible.Text(text.Line(n.Name, 80)))
		if n.Name == name {
			found = n
			incs = append(incs, n.Inc)
		}
	}
	switch len(incs) {
	case 0:
		if len(names) > listedNames {
			names = append(names[:listedNames], "…")
		}
		return found, mcp.Errorf(mcp.KindNotFound, "there is no node %q; there are: %s", visible.Text(text.Line(name, 80)), strings.Join(names, ", "))
	case 1:
		return found, nil
	}
	return found, mcp.Errorf(mcp.KindInvalidParams, "several nodes are named %q; name one by its INC: %s", visible.Text(text.Line(name, 80)), visible.Text(strings.Join(incs, ", ")))
}
