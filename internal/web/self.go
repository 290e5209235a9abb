package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// self is the state that this node publishes to the other nodes.
type self struct {
	calls atomic.Int64 // POST requests in flight

	conf *config.Config // of hash; the rest is of one goroutine
	hash string
	at   time.Time     // of the last measurement
	cpu  time.Duration // until then
}

// tell returns the current state of the node. Only one goroutine may call it.
func (s *self) tell(f *Server) cluster.Self {
	if c := f.gateway.Config(); c != s.conf {
		s.conf, s.hash = c, config.CommonHash(c)
	}
	now, cpu := time.Now(), telemetry.CPU()
	var used float64
	if took := now.Sub(s.at); !s.at.IsZero() && took > 0 {
		used = float64((cpu-s.cpu)*100/took) / 100
	}
	s.at, s.cpu = now, cpu
	return cluster.Self{
		Version: f.gateway.Run.Version, Config: s.hash,
		Load: cluster.Load{Calls: int(s.calls.Load()), Sessions: f.gateway.OpenSessions(), CPU: used},
	}
}

// nodes implements api.Cluster.
type nodes struct {
	of      *cluster.Node
	gateway *gateway.Gateway
}

// Status implements api.Cluster.
func (n nodes) Status() api.ClusterStatus {
	all := cluster.Status(n.of)
	out := api.ClusterStatus{Nodes: make([]api.ClusterNode, 0, len(all)), Servers: []api.ClusterServer{}, Warnings: []string{}}
	names := map[string]string{}
	for i, s := range all {
		if s.Self { // other nodes do not know it without a store
			s.Version, s.Config = n.gateway.Run.Version, config.CommonHash(n.gateway.Config())
			all[i] = s
			if trouble := nodestore.Trouble(n.of); trouble != "" {
				out.Warnings = append(out.Warnings, fmt.Sprintf("%s: %s; what is said of the other nodes may be old", s.Name, trouble))
			}
		}
		out.Nodes = append(out.Nodes, api.ClusterNode{
			Name: s.Name, Inc: s.Inc, Self: s.Self, State: s.State, Version: s.Version, Proto: s.Proto, URL: s.URL, Config: s.Config,
			Calls: s.Load.Calls, Sessions: s.Load.Sessions, CPU: s.Load.CPU, Started: s.Started, SkewMS: s.Skew.Milliseconds(), Skewed: s.Skewed(),
		})
		names[s.Inc] = s.Name
		if s.Skewed() {
			out.Warnings = append(out.Warnings, fmt.Sprintf("the clock of %s is %s: set the clocks by NTP, quotas and the ends of tokens depend on them", s.Name, ahead(s.Skew)))
		}
	}
	for server, inc := range n.gateway.Holders() {
		if names[inc] == "" {
			inc = "" // its node is gone
		}
		out.Servers = append(out.Servers, api.ClusterServer{Name: server, Node: names[inc], Inc: inc})
	}
	slices.SortFunc(out.Servers, func(a, b api.ClusterServer) int { return strings.Compare(a.Name, b.Name) })
	for hash, names := range cluster.Differing(all) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s: the configuration is %s, and other nodes have another one; give all nodes the same file", strings.Join(names, ", "), hash))
	}
	slices.Sort(out.Warnings)
	return out
}

// ahead says how a clock differs from this node's.
func ahead(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Second).String() + " behind"
	}
	return d.Round(time.Second).String() + " ahead"
}

// Drain implements api.Cluster.
func (n nodes) Drain(ctx context.Context, inc string) error {
	if err := cluster.DrainNode(ctx, n.of, inc); err != nil {
		return mcp.Errorf(mcp.KindUpstreamUnavailable, "the node %s does not answer, so it may not drain; ask again, or end it by SIGTERM: %w", inc, err)
	}
	return nil
}
