package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/result/usage"
)

// peerStats is the path at which nodes tell each other of the cost of calls, as far as the caller may see it.
const peerStats = "/peer/v1/stats"

// Bounds of a request for the usage of another node.
const (
	statsTime = 2 * time.Second
	maxStats  = 16 << 20
)

// ClusterStats are the usage of the nodes of a cluster, or of a gateway of one node.
type ClusterStats struct {
	usage.Stats
	// Nodes are the sorted names of the nodes whose usage it is. A gateway of one node has none.
	Nodes []string `json:"nodes,omitempty"`
	// Silent are the sorted names of the nodes that have not answered in time: theirs is missing.
	Silent []string `json:"silent,omitempty"`
}

// A Usage tells callers what their calls cost. Its fields never change. It is safe for concurrent use.
type Usage struct {
	State *metatool.State
	Node  *cluster.Node
	All   func(ctx context.Context) bool // reports whether the caller of a request sees everything
	Log   *slog.Logger
}

// Stats returns the response of /stats for the caller of a request: all calls for operators and where
// there is only one principal, otherwise the caller's own.
func (u *Usage) Stats(ctx context.Context) usage.Stats {
	if u.All(ctx) {
		return u.State.Stats("")
	}
	return u.State.Stats(identity.From(ctx).Principal)
}

// OfNodes returns the usage that the caller of a request may see: of all nodes of a cluster, each of which is
// asked, or, if own is true, of this one. Of a session that several nodes have served, the sum is one row.
func (u *Usage) OfNodes(ctx context.Context, own bool) ClusterStats {
	out := ClusterStats{Stats: u.Stats(ctx)}
	node := u.Node
	if name := node.Name(); name != "" {
		out.Nodes = []string{name}
	}
	if own {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, statsTime)
	defer cancel()
	var mu sync.Mutex // guards out
	var asked sync.WaitGroup
	for _, p := range node.Peers() {
		if p.Inc == node.Inc() || p.URL == "" {
			continue
		}
		asked.Go(func() {
			s, err := statsAt(ctx, node, p.Inc)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				u.Log.Warn("the cost of calls at another node is not known", "node", p.Name, "err", err)
				out.Silent = append(out.Silent, p.Name)
				return
			}
			out.Nodes = append(out.Nodes, p.Name)
			add(&out.Stats, s)
		})
	}
	asked.Wait()
	slices.Sort(out.Nodes)
	slices.Sort(out.Silent)
	return out
}

// statsAt asks a node.
func statsAt(ctx context.Context, node *cluster.Node, inc string) (s usage.Stats, err error) {
	status, raw, err := peerlink.Ask(ctx, node, inc, http.MethodGet, peerStats, nil, maxStats)
	switch {
	case err != nil:
		return s, err
	case status != http.StatusOK:
		return s, fmt.Errorf("status %d", status)
	case len(raw) > maxStats:
		return s, errors.New("its answer is too large")
	}
	return s, json.Unmarshal(raw, &s)
}

// add adds the usage of a node to the usage of others.
func add(to *usage.Stats, s usage.Stats) {
	if s.Since.Before(to.Since) {
		to.Since = s.Since
	}
	to.Total.Add(s.Total)
	type row struct{ session, principal string }
	at := make(map[row]int, len(to.Sessions))
	for i, one := range to.Sessions {
		at[row{one.Session, one.Principal}] = i
	}
	for _, one := range s.Sessions {
		if i, known := at[row{one.Session, one.Principal}]; known {
			to.Sessions[i].Usage.Add(one.Usage)
			continue
		}
		to.Sessions = append(to.Sessions, one)
	}
}

// Route is where other nodes ask for the usage at this one.
func (u *Usage) Route() peerlink.Route { return peerlink.Route{Path: peerStats, Serve: u.answer} }

// answer serves peerStats.
func (u *Usage) answer(w http.ResponseWriter, r *http.Request, id *identity.Identity) {
	httpserver.WriteJSON(w, http.StatusOK, u.Stats(identity.With(r.Context(), id)))
}
