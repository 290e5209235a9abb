package app

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
)

// JoinedStore returns the Store of a node in a cluster over any documents.
func JoinedStore(ctx context.Context, docs store.Docs, key *seal.Key, o cluster.Options) (*Store, error) {
	s := &Store{log: o.Logger}
	return s, s.join(ctx, docs, key, o)
}

// OuterHub returns what serves hub.listen.
func OuterHub(o *Offices) http.Handler { return o.outer.Handler }

// BackUp makes a Store keep copies of results.
func BackUp(s *Store, blobs store.Blobs) { s.shared.blobs = blobs }
