package app

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/sessionid"
	"github.com/weir-mcp/weir/internal/store"
)

// Cluster returns this process as a node of a cluster, nil if the gateway is one node.
func (s *Store) Cluster() *cluster.Node {
	if s == nil {
		return nil
	}
	return s.node
}

// Link returns the listener for other nodes, and how they prove that they are nodes; nil if the gateway is
// one node.
func (s *Store) Link() (net.Listener, *tls.Config) {
	if s == nil {
		return nil, nil
	}
	return s.link, s.trust
}

// join makes this process a node of the cluster that shares a store. Ids of sessions name the node.
func (s *Store) join(ctx context.Context, docs store.Docs, key *seal.Key, o cluster.Options) (err error) {
	o.Docs = docs
	if s.node, err = cluster.Start(ctx, o); err != nil {
		return err
	}
	s.docs, s.key = docs, key
	s.ids = sessionid.New(key, docs, o.Logger)
	s.ids.In(s.node.Inc)
	return nil
}

// leave ends the node. Other nodes take over what it owned.
func (s *Store) leave() {
	if s.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		s.node.Close(ctx)
	}
}
