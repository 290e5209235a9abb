package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/backend"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
)

// storeResults is the folder of a store in files with the bytes of results that were held back.
const storeResults = "artifacts"

// A Store is what a gateway keeps, and this process as a node of the gateways that share it: cluster.Solo for the only
// one.
type Store struct {
	store.Store
	node   *cluster.Node
	docs   store.Docs // of Store, for requests; see cluster.Docs
	ids    *sessionid.Ids
	shelf  *artifact.Shelf // nil where results are in memory
	name   string          // of the cluster
	log    *slog.Logger
	events *natsstore.Events      // of all gateways; nil if they are not configured
	stream *telemetry.EventStream // into events; nil without them
	// unshared counts listings that are too large for other nodes.
	unshared atomic.Int64
}

// newStore returns the Store of a node. It closes both.
func newStore(kept store.Store, node *cluster.Node, log *slog.Logger) *Store {
	s := &Store{Store: kept, node: node, docs: cluster.Docs(node), log: log}
	s.ids = sessionid.New(kept.Key(), s.docs, log)
	s.ids.In(node.Inc)
	return s
}

// memoryStore returns a store that ends with the process.
func memoryStore(log *slog.Logger) *Store {
	kept := backend.Memory()
	return newStore(kept, cluster.Solo(kept), log)
}

// OpenStore opens the configured store. The caller closes it, or passes it to New.
func OpenStore(ctx context.Context, c *config.Config, log *slog.Logger) (*Store, error) {
	s, err := openStore(ctx, c, log)
	if err != nil {
		return nil, part.Setupf("store: %w", err)
	}
	return s, nil
}

func openStore(ctx context.Context, c *config.Config, log *slog.Logger) (*Store, error) {
	open := backend.Config{
		Dir: c.Store.Dir(), Late: c.Store.Sync == config.SyncInterval, MaxBytes: int64(c.Store.MaxBytes), Servers: servers(c, log),
		Cluster: c.Cluster.Name, Replicas: c.Store.Replicas, Copies: c.Artifacts.Backup, Logger: log,
	}
	join := cluster.Config{
		Cluster: c.Cluster.Name, Name: c.Cluster.Node, Listen: c.Cluster.Listen, Advertise: c.Cluster.Advertise, Logger: log,
	}
	if key, old := c.Cluster.Keys(); key != nil {
		open.Key, join.TLS = key.Seal(old...), link.NewAuthority(c.Cluster.Node, key, old, nil).TLS()
	} else if c.Store.Shared() {
		return nil, errors.New("cluster.key is missing")
	}
	kept, err := backend.Open(ctx, open)
	if err != nil {
		return nil, err
	}
	node, err := cluster.Join(ctx, kept, join)
	if err != nil {
		kept.Close()
		return nil, err
	}
	s := newStore(kept, node, log)
	s.name = c.Cluster.Name
	if open.Dir != "" {
		s.shelf = &artifact.Shelf{Docs: s.docs, Dir: filepath.Join(open.Dir, storeResults), Late: open.Late}
		err = cmp.Or(place.MakeFolder(s.shelf.Dir), place.Usable(s.shelf.Dir))
	}
	if err == nil {
		err = s.openEvents(c, log)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// servers returns the NATS servers of a configuration.
func servers(c *config.Config, log *slog.Logger) natsstore.Servers {
	k := &c.Store
	return natsstore.Servers{URLs: k.URLs(), Creds: k.Creds, CA: k.CA, Cert: k.Cert, Key: k.Key, Logger: log}
}

// LookAtStore asks the NATS servers of a configuration whether they take this gateway, until ctx ends. It changes nothing
// there. refused says that the servers answer, and that the gateway's credentials, TLS or account are wrong.
func LookAtStore(ctx context.Context, c *config.Config) (refused bool, err error) {
	err = natsstore.Look(ctx, servers(c, nil))
	return err != nil && !errors.Is(err, natsstore.ErrAway), err
}

// restoreTimeout bounds how long it takes to read what is restored at the start.
const restoreTimeout = 30 * time.Second

// restore returns the state of a gateway and the agents that have registered, with what the store has
// of an earlier one.
func (s *Store) restore(log *slog.Logger) (*metatool.State, *registry.Kept, error) {
	state := metatool.NewState()
	switch s.Lasts() {
	case store.Process:
		return state, nil, nil
	case store.Cluster: // several nodes write what the rest keeps
		state.Share(s.docs, func() int { return len(s.node.Peers()) }, distantTasks(s.node))
		cluster.OnDrain(s.node, state.Yield)
		state.ShareBodies(distantBodies(s.node))
		return state, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	err := state.Keep(ctx, s.docs, log)
	var agents *registry.Kept
	if err == nil {
		agents, err = registry.ReadKept(ctx, s.docs)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	return state, agents, nil
}

// invocations returns the secrets of which the secrets of registered agents are made. They last as long as the store. The
// first one signs.
func (s *Store) invocations() [][]byte { return s.Key().Secrets("invocation") }

// documents returns the documents of a store that outlasts the process, nil for another one.
func (s *Store) documents() store.Docs {
	if s.Lasts() == store.Process {
		return nil
	}
	return s.docs
}

// Close ends the store. What was confirmed stays. Other nodes take over what this one owned.
func (s *Store) Close() {
	s.stream.Close()
	ctx, cancel := context.WithTimeout(context.Background(), peerlink.LeaveTimeout)
	defer cancel()
	s.node.Close(ctx)
	s.Store.Close()
}

// Sessions returns the ids of the legacy sessions at a path, from which they can be made again after
// a restart; nil if the store ends with the process.
func (s *Store) Sessions(path string) *sessionid.Endpoint {
	if s.Lasts() == store.Process {
		return nil
	}
	return s.ids.At(path)
}
