package web

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/store"
)

// TestOneNodeHasNoNotice: a gateway that is no node of a cluster does not wait for other nodes when it ends.
func TestOneNodeHasNoNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		retire(t.Context(), cluster.Solo(store.NewMemory(store.MemoryOptions{})))
		unlink(t.Context(), nil)
		if took := time.Since(began); took != 0 {
			t.Errorf("the end of one gateway takes %v longer", took)
		}
	})
}
