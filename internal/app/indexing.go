package app

import (
	"sync"

	"github.com/weir-mcp/weir/internal/gateway"
)

// indexing prepares snapshots for searches.
type indexing struct{ all sync.WaitGroup }

// prepare prepares a snapshot. Indexing thousands of tools takes so long that the snapshot can be
// browsed meanwhile; searches wait for it.
func (x *indexing) prepare(s *gateway.Snapshot) {
	if s.Pending() {
		x.all.Go(s.Prepare)
		return
	}
	s.Prepare()
}
