package roster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// TestEndings: a node counts as gone only if the store has no document of it, and is then gone for good. The nodes that
// are remembered are bounded.
func TestEndings(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	present := map[string]bool{"present": true}
	e := &endings{docs: docs, unknown: func(inc string) bool { return !present[inc] }, of: map[string]bool{}}
	if _, err := docs.Set(t.Context(), store.NodeKeys+"joined", []byte("{}"), 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	has := func(inc string) bool {
		t.Helper()
		gone, err := e.has(t.Context(), inc)
		if err != nil {
			t.Fatal(err)
		}
		return gone
	}
	for inc, want := range map[string]bool{"present": false, "joined": false, "left": true} {
		if got := has(inc); got != want {
			t.Errorf("%s is gone: %t, want %t", inc, got, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	present["left"] = true // an old document that comes late
	if gone, err := e.has(over, "left"); err != nil || !gone {
		t.Errorf("a node that was gone is back, or the store was asked again: %t, %v", gone, err)
	}
	for i := range 2 * maxDead {
		e.note(fmt.Sprint(i))
	}
	if len(e.of) > maxDead {
		t.Errorf("%d ends are remembered, more than %d", len(e.of), maxDead)
	}
}
