package bridge

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// TestOnce: an approval is used once, whatever the store does, and is known as used for longer than its state lives.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		for _, fault := range []storetest.Fault{storetest.None, storetest.Drop, storetest.ApplyThenFail, storetest.ConflictFalsely} {
			var asked, used atomic.Int32
			nodes := [3]*Nodes{}
			for i := range nodes {
				nodes[i] = NewNodes(nil, nil, &storetest.Faults{Docs: docs, Next: func() storetest.Fault {
					if n := asked.Add(1); n%2 == 0 && n < 12 { // of reads and of writes
						return fault
					}
					return storetest.None
				}})
			}
			id := string(rune('a' + fault))
			var all sync.WaitGroup
			for _, s := range nodes {
				all.Go(func() {
					switch err := s.Once(t.Context(), id); {
					case err == nil:
						used.Add(1)
					case !errors.Is(err, errUsed):
						t.Errorf("fault %d: %v", fault, err)
					}
				})
			}
			if all.Wait(); used.Load() != 1 {
				t.Errorf("fault %d: used %d times", fault, used.Load())
			}
		}
		away := &storetest.Faults{Docs: docs}
		away.Cut(true)
		if err := NewNodes(nil, nil, away).Once(t.Context(), "away"); err == nil || errors.Is(err, errUsed) {
			t.Errorf("without the store: %v", err)
		}
	})
}
