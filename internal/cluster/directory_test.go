package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// knownNodes returns a directory over documents, with the nodes that it found to be gone.
func knownNodes(docs store.Docs) (d *directory, ended *[]string) {
	ended = new([]string)
	return &directory{docs: docs, ended: func(inc string) { *ended = append(*ended, inc) }, peers: map[string]*peerState{}, gone: map[string]time.Time{}}, ended
}

func nodeDocument(t *testing.T, inc, state string, rev uint64) store.Doc {
	t.Helper()
	value, err := json.Marshal(nodeDoc{1, Peer{Inc: inc, Name: "of " + inc, State: state}})
	if err != nil {
		t.Fatal(err)
	}
	return store.Doc{Key: store.NodeKeys + inc, Value: value, Rev: rev}
}

// TestDirectoryFollows: a node is there from its document on, drains for good, and does not come back once it is gone.
func TestDirectoryFollows(t *testing.T) {
	d, ended := knownNodes(nil)
	d.follow(nodeDocument(t, "aaaaaa", stateUp, 1))
	d.follow(nodeDocument(t, "bbbbbb", stateUp, 1))
	d.drains("bbbbbb")
	d.follow(nodeDocument(t, "bbbbbb", stateUp, 2)) // written before it drained
	if p, there := d.of("bbbbbb"); !there || p.State != stateDraining || !d.over("bbbbbb") || d.over("aaaaaa") {
		t.Errorf("a node that drains: %+v, %t", p, there)
	}
	d.follow(store.Doc{Key: store.NodeKeys + "aaaaaa"})
	d.follow(store.Doc{Key: store.NodeKeys + "aaaaaa"})
	d.follow(nodeDocument(t, "aaaaaa", stateUp, 3)) // of before
	d.end("bbbbbb")
	d.end("cccccc") // was never seen
	if !slices.Equal(*ended, []string{"aaaaaa", "bbbbbb"}) {
		t.Errorf("the ends of %q were told", *ended)
	}
	if left := d.all(); len(left) != 0 || !d.over("aaaaaa") || !d.over("cccccc") {
		t.Errorf("%+v are there", left)
	}
}

// TestDirectoryOwn: a document has its first owner until that one is gone; where the owner drains, only a claim that
// allows it takes the document; a strict one waits until the owner has fenced itself.
func TestDirectoryOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		d, _ := knownNodes(docs)
		revs := map[string]uint64{}
		for _, inc := range []string{"aaaaaa", "bbbbbb"} {
			doc := nodeDocument(t, inc, stateUp, 0)
			rev, err := docs.Set(t.Context(), doc.Key, doc.Value, 0, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			doc.Rev, revs[inc] = rev, rev
			d.follow(doc)
		}
		own := func(inc string, o claimOptions) (by, before string) {
			t.Helper()
			o.key, o.ttl = "s.x", time.Hour
			_, by, was, err := d.own(t.Context(), inc, o)
			if err != nil {
				t.Fatal(err)
			}
			return by, OwnerIn(was.Value)
		}
		if by, before := own("aaaaaa", claimOptions{}); by != "aaaaaa" || before != "" {
			t.Errorf("the first owner is %q after %q", by, before)
		}
		if by, _ := own("bbbbbb", claimOptions{drained: true}); by != "aaaaaa" {
			t.Errorf("%q has taken a document whose owner is there", by)
		}
		d.drains("aaaaaa")
		if by, _ := own("bbbbbb", claimOptions{}); by != "aaaaaa" {
			t.Errorf("%q has taken a document whose owner drains and keeps it", by)
		}
		if by, before := own("bbbbbb", claimOptions{drained: true}); by != "bbbbbb" || before != "aaaaaa" {
			t.Errorf("after the owner drains: %q after %q", by, before)
		}
		if err := docs.Delete(t.Context(), store.NodeKeys+"bbbbbb", revs["bbbbbb"]); err != nil {
			t.Fatal(err)
		}
		d.follow(store.Doc{Key: store.NodeKeys + "bbbbbb"})
		began := time.Now()
		if by, _ := own("cccccc", claimOptions{strict: true}); by != "cccccc" || time.Since(began) < nodeTTL {
			t.Errorf("a strict claim is of %q after %v", by, time.Since(began))
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, _, err := d.own(over, "dddddd", claimOptions{key: "s.y"}); err == nil {
			t.Error("a claim outlives its context")
		}
	})
}

// TestLifeEnds: what an incarnation owns is lost with it, and it owns nothing more.
func TestLifeEnds(t *testing.T) {
	l := &life{ready: make(chan struct{})}
	claim := func() *Claim { return &Claim{of: l, lost: make(chan struct{})} }
	if !l.apart() {
		t.Error("an incarnation that no store knows is not apart")
	}
	close(l.ready)
	kept, released := claim(), claim()
	if !l.add(kept) || !l.add(released) || l.apart() {
		t.Error("an incarnation cannot own")
	}
	l.remove(released)
	if lost := l.end(); len(lost) != 1 || kept.Held() || !released.Held() || !l.apart() {
		t.Errorf("%d things are lost; kept is held: %t", len(lost), kept.Held())
	}
	if l.add(claim()) {
		t.Error("an incarnation that is over owns a thing")
	}
}
