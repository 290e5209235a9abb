package gatewaytest

import (
	"context"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/nodestore"
)

// joinedStore returns the Store of a node in a cluster over any documents. blobs are for copies of results.
func joinedStore(ctx context.Context, docs store.Docs, blobs store.Blobs, key *seal.Key, o cluster.Options) (*nodestore.Store, error) {
	o.Docs = docs
	node, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return nodestore.New(joined{docs, blobs, o.Bus, key}, node, o.Logger), nil
}

// joined is a store that several gateways of a test share.
type joined struct {
	store.Docs
	blobs store.Blobs
	bus   store.Bus
	key   *seal.Key
}

func (j joined) Blobs() store.Blobs { return j.blobs }
func (j joined) Bus() store.Bus     { return j.bus }
func (j joined) Key() *seal.Key     { return j.key }
func (joined) Lasts() store.Lasts   { return store.Cluster }
func (joined) Close()               {}
