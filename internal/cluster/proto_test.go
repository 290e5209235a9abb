package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUpgradeByOneVersion: while the nodes of one build are replaced by those of the next one, each node writes what
// all of them read, and the new version from the end of the last old node on. A build that is two versions ahead does
// not join, and says what to do; when the others have left, it does.
func TestUpgradeByOneVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		join := func(name string, proto [2]int) (*Node, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			return Start(ctx, Options{Docs: w.docs, Bus: w.bus, Name: name, URL: "https://" + name + ":8090", Dial: w.dial, proto: proto})
		}
		must := func(name string, proto [2]int) *Node {
			t.Helper()
			n, err := join(name, proto)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		old, next, later := [2]int{1, 1}, [2]int{1, 2}, [2]int{3, 4}
		nodes := []*Node{must("a", old), must("b", old), must("c", old)}
		for i, n := range nodes {
			n.Close(t.Context())
			nodes[i] = must(n.Name(), next)
			synctest.Wait()
			want := 1
			if i == len(nodes)-1 {
				want = 2
			}
			for _, n := range nodes {
				if got := written(n.o.proto, n.Peers()); got != want {
					t.Errorf("with %d of 3 nodes replaced, %s writes version %d, not %d", i+1, n.Name(), got, want)
				}
			}
		}
		began := time.Now()
		if _, err := join("d", later); !errors.Is(err, errForeign) || !strings.Contains(err.Error(), "the node a ") {
			t.Errorf("a build that is two versions ahead: %v", err)
		} else if waited := time.Since(began); waited < nodeTTL {
			t.Errorf("it waited %v: the document of a killed node is there for longer", waited)
		}
		for _, n := range nodes {
			n.Close(t.Context())
		}
		must("d", later).Close(t.Context())
	})
}
