package office

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream/computers"
	"github.com/weir-mcp/weir/smcp/agent"
)

// askedDocs counts the questions for one document.
type askedDocs struct {
	store.Docs
	key   string
	count atomic.Int64
}

func (d *askedDocs) Get(ctx context.Context, key string) (store.Doc, error) {
	if key == d.key {
		d.count.Add(1)
	}
	return d.Docs.Get(ctx, key)
}

// TestHubWatch: the nodes that are not the agent at a hub of hubs follow the claim. They do not ask the store each
// second, and one of them has the hub as soon as the claim is given up.
func TestHubWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &sharedHub{name: "lab", gate: &hubGate{}}
		docs, bus := &askedDocs{Docs: store.NewMemory(store.MemoryOptions{}), key: h.key()}, store.NewMemoryBus()
		join := func(name string) *cluster.Node {
			n, err := cluster.Start(t.Context(), cluster.Options{Docs: docs, Bus: bus, Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		holder := join("a")
		h.node, h.docs = join("b"), docs
		var err error
		if h.fleet, err = computers.New(computers.Options{Agent: agent.Options{URL: "http://hub.invalid", Office: "lab"}}); err != nil {
			t.Fatal(err)
		}
		claim, err := holder.Claim(t.Context(), docs.key, true)
		if err != nil {
			t.Fatal(err)
		}
		docs.count.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			h.run(ctx)
			close(ended)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if count := docs.count.Load(); count > 5 || h.gate.isOpen() {
			t.Errorf("in a minute the store was asked %d times; it has the hub: %v", count, h.gate.isOpen())
		}
		if err := claim.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if !h.gate.isOpen() {
			t.Error("the claim was given up, and no node has the hub")
		}
		cancel()
		<-ended
		h.fleet.Close()
		h.node.Close(context.Background())
		holder.Close(context.Background())
	})
}
