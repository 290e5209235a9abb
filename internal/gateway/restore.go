package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/dataplane"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/tasks"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
)

// restoreTimeout bounds how long it takes to read what is restored at the start.
const restoreTimeout = 30 * time.Second

// restore returns the state of a gateway and the agents that have registered, with what the store has
// of an earlier one.
func restore(s *nodestore.Store, log *slog.Logger) (*metatool.State, *registry.Kept, error) {
	state := metatool.NewState()
	switch s.Lasts() {
	case store.Process:
		return state, nil, nil
	case store.Cluster: // several nodes write the documents that a single one keeps in memory
		state.Share(s.Docs(), func() int { return len(s.Node().Peers()) }, tasks.OfCluster(s.Node()))
		cluster.OnDrain(s.Node(), state.Yield)
		state.ShareBodies(dataplane.RemoteBodies(s.Node()))
		return state, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	err := state.Keep(ctx, s.Docs(), log)
	var agents *registry.Kept
	if err == nil {
		agents, err = registry.ReadKept(ctx, s.Docs())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	return state, agents, nil
}

// states returns how agents' states name this node.
func states(s *nodestore.Store) *bridge.Nodes {
	return bridge.NewNodes(s.Node().Inc, s.Key().Secrets("states"), s.Docs())
}
