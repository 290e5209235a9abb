package web

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// fromNode implements api.Options.Checked: the peer link serves only nodes of the cluster.
func fromNode(ctx context.Context) bool {
	_, _, carried := link.Caller(ctx)
	return carried
}

// Pass implements api.Cluster.
func (n nodes) Pass(to api.ClusterNode, w http.ResponseWriter, r *http.Request) error {
	err := cluster.Forward(n.of, to.Inc, w, r)
	if err == nil || r.Context().Err() != nil {
		return nil
	}
	unsent := cluster.NotSent(err)
	e := mcp.Errorf(mcp.KindNodeGone, "the node %s does not answer, and the request may have run there: look at the node before you repeat a change: %w", to.Name, err)
	switch {
	case unsent && n.of.Suspect(r.Context(), to.Inc):
		e = mcp.Errorf(mcp.KindNodeGone, "the node %s is gone; weir cluster shows those that are there: %w", to.Name, err)
	case unsent:
		e = mcp.Errorf(mcp.KindNodeGone, "the node %s lives and cannot be reached by the other nodes; operators check its cluster.advertise: %w", to.Name, err)
	}
	e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": to.Inc, "maybe_ran": !unsent}) // texts and a bool
	return e
}

// atNode serves requests with the parameter node at the node that it names, and all others here. Call it behind the
// guard.
func (f *Server) atNode(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if !query.Has("node") || fromNode(r.Context()) {
			serve(w, r)
			return
		}
		if f.gateway.Store.Lasts() != store.Cluster {
			refuse(w, api.ErrOneNode)
			return
		}
		all := nodes{f.cluster, f.gateway}
		n, err := api.NodeNamed(all.Status().Nodes, query.Get("node"))
		switch {
		case err != nil:
			refuse(w, err)
		case n.Self:
			serve(w, r)
		default:
			if err := all.Pass(n, w, r); err != nil {
				refuse(w, err)
			}
		}
	})
}

// refuse answers with an error of the table of errors.
func refuse(w http.ResponseWriter, err error) {
	kind, _ := mcp.KindOf(err)
	guard.WriteError(w, kind.Info().HTTP, "", err)
}

// usage implements api.Options.Usage.
func (s *viewed) usage(ctx context.Context, own bool) api.UsageOfNodes {
	stats := s.gateway.Reports.Usage.OfNodes(ctx, own)
	return api.UsageOfNodes{Usage: usageOf(&stats.Stats, !s.gateway.Views.SeesAll(ctx)), Nodes: stats.Nodes, Silent: stats.Silent}
}
