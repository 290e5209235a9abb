package nodestore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/backend"
	"github.com/weir-mcp/weir/internal/store/natsstore"
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
	// unshared counts documents that are too large for the other nodes.
	unshared atomic.Int64
}

// Node returns this process as a node of the gateways that share the store.
func (s *Store) Node() *cluster.Node { return s.node }

// Docs returns the documents for requests; see cluster.Docs.
func (s *Store) Docs() store.Docs { return s.docs }

// Shelf returns where results last, nil if they are in memory.
func (s *Store) Shelf() *artifact.Shelf { return s.shelf }

// CountUnshared counts a document that is too large for the other nodes.
func (s *Store) CountUnshared() { s.unshared.Add(1) }

// defaultCluster is the name of a cluster that has none.
const defaultCluster = "weir"

// Cluster returns the name of the cluster.
func (s *Store) Cluster() string { return cmp.Or(s.name, defaultCluster) }

// OpenSessions returns how many sessions live in this process that have an id which outlasts it.
func (s *Store) OpenSessions() int { return s.ids.Open() }

// Figures returns the figures of a node, nil if the gateway is one node.
func (s *Store) Figures() func() metrics.ClusterFigures {
	if s.Lasts() != store.Cluster {
		return nil
	}
	return func() metrics.ClusterFigures {
		f := cluster.Count(s.node)
		return metrics.ClusterFigures{
			Nodes: f.Nodes, Forwarded: f.Forwarded, Adopted: f.Adopted, Broken: f.Broken, Fenced: f.Fenced, Renewals: f.Renewals, Renewing: f.Renewing, Unshared: s.unshared.Load(), Apart: f.Apart, Silence: f.Silence,
		}
	}
}

// New returns the Store of a node. It closes both.
func New(kept store.Store, node *cluster.Node, log *slog.Logger) *Store {
	s := &Store{Store: kept, node: node, docs: cluster.Docs(node), log: log}
	s.ids = sessionid.New(kept.Key(), s.docs, log)
	s.ids.In(node.Inc)
	return s
}

// Memory returns a store that ends with the process.
func Memory(log *slog.Logger) *Store {
	kept := backend.Memory()
	return New(kept, cluster.Solo(kept), log)
}

// Open opens the configured store. The caller closes it, or passes it to a gateway.
func Open(ctx context.Context, c *config.Config, log *slog.Logger) (*Store, error) {
	s, err := open(ctx, c, log)
	if err != nil {
		return nil, part.Setupf("store: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, c *config.Config, log *slog.Logger) (*Store, error) {
	at := backend.Config{
		Dir: c.Store.Dir(), Late: c.Store.Sync == config.SyncInterval, MaxBytes: int64(c.Store.MaxBytes), Servers: servers(c, log),
		Cluster: c.Cluster.Name, Replicas: c.Store.Replicas, Copies: c.Artifacts.Backup, Logger: log,
	}
	join := cluster.Config{
		Cluster: c.Cluster.Name, Name: c.Cluster.Node, Listen: c.Cluster.Listen, Advertise: c.Cluster.Advertise, Logger: log,
	}
	if key, old := c.Cluster.Keys(); key != nil {
		at.Key, join.TLS = key.Seal(old...), link.NewAuthority(c.Cluster.Node, key, old, nil).TLS()
	} else if c.Store.Shared() {
		return nil, errors.New("cluster.key is missing")
	}
	kept, err := backend.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	node, err := cluster.Join(ctx, kept, join)
	if err != nil {
		kept.Close()
		return nil, err
	}
	s := New(kept, node, log)
	s.name = c.Cluster.Name
	if at.Dir != "" {
		s.shelf = &artifact.Shelf{Docs: s.docs, Dir: filepath.Join(at.Dir, storeResults), Late: at.Late}
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

// Look asks the NATS servers of a configuration whether they take this gateway, until ctx ends. It changes nothing
// there. refused says that the servers answer, and that the gateway's credentials, TLS or account are wrong.
func Look(ctx context.Context, c *config.Config) (refused bool, err error) {
	err = natsstore.Look(ctx, servers(c, nil))
	return err != nil && !errors.Is(err, natsstore.ErrAway), err
}

// Documents returns the documents of a store that outlasts the process, nil for another one.
func (s *Store) Documents() store.Docs {
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
