package placement

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/store"
)

// TestPlaceGivenUp: the claim of a program that ends while another attempt waits for it is free, although that attempt
// is given up.
func TestPlaceGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		node, err := cluster.Start(t.Context(), cluster.Options{Docs: docs, Bus: store.NewMemoryBus(), Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		p := newPrograms(node, docs, slog.New(slog.DiscardHandler))
		if _, err := p.Place(t.Context(), "prog", "ann"); err != nil {
			t.Fatal(err)
		}
		if !p.has("prog", "ann") {
			t.Fatal("the node does not have the program")
		}
		key := placeKey("prog", "ann")
		one := p.all[key]
		one.turn <- struct{}{} // the end of the program
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := p.Place(ctx, "prog", "ann")
			over <- err
		}()
		synctest.Wait()
		if _, held := p.leave(key, one); held {
			t.Fatal("the claim is given up although an attempt waits for it")
		}
		cancel()
		synctest.Wait()
		<-one.turn
		if err := <-over; err == nil {
			t.Error("an attempt that was given up has a place")
		}
		if inc, err := cluster.HeldBy(t.Context(), node, key); err != nil || inc != "" || len(p.all) != 0 || p.has("prog", "ann") {
			t.Errorf("the claim is held by %q, %v; %d are kept", inc, err, len(p.all))
		}
		node.Close(context.Background())
	})
}
