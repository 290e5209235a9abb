package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// TestLate: a node that starts while the store is away has its INC for as long as that takes, owns nothing by a document,
// and joins with the same INC when the store answers.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join("a")
		defer a.Close(t.Context())
		docs := &storetest.Faults{Docs: w.docs}
		docs.Cut(true)
		start := func(o Options) *Node {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			o.Docs, o.Bus, o.Dial, o.Late = docs, w.bus, w.dial, true
			n, err := Start(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		began := time.Now()
		n := start(Options{Name: "b", URL: "https://b:8090"})
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the start took %v", took)
		}
		inc, fenced := n.Inc(), n.Fenced()
		time.Sleep(10 * time.Minute)
		if joined, err := Joined(n); joined || err != nil || n.Ready() || n.Inc() != inc {
			t.Errorf("without a store: joined %v %v, ready %v, INC %s and then %s", joined, err, n.Ready(), inc, n.Inc())
		}
		if c, err := n.Claim(t.Context(), "u.x", false); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a claim: %v %v", c, err)
		}
		docs.Cut(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if joined, err := Joined(n); !joined || err != nil || !n.Ready() || n.Inc() != inc || a.Gone(inc) || n.Gone(a.Inc()) {
			t.Errorf("with the store: joined %v %v, ready %v, INC %s and then %s, gone %v %v", joined, err, n.Ready(), inc, n.Inc(), a.Gone(inc), n.Gone(a.Inc()))
		}
		c, err := n.Claim(t.Context(), "u.x", true)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Release(t.Context()); err != nil {
			t.Error(err)
		}
		docs.Cut(true)
		<-fenced
		synctest.Wait()
		if c, err := n.Claim(t.Context(), "u.x", true); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a claim of an incarnation without a document: %v %v", c, err)
		}
		if joined, _ := Joined(n); !joined {
			t.Error("a node that has lost the store counts as one that has never joined")
		}
		docs.Cut(false)
		time.Sleep(5 * time.Second)
		if !n.Ready() {
			t.Error("a fenced node is not ready again")
		}

		docs.Cut(true)
		foreign := start(Options{Name: "c", proto: [2]int{7, 8}})
		docs.Cut(false)
		time.Sleep(time.Minute)
		if joined, err := Joined(foreign); joined || !errors.Is(err, errForeign) {
			t.Errorf("a build that the others do not understand: joined %v %v", joined, err)
		}
		foreign.Close(t.Context())
		docs.Cut(true)
		start(Options{Name: "d"}).Close(t.Context())
		docs.Cut(false)
		n.Close(t.Context())
	})
}
