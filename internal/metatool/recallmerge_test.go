package metatool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

// sharing returns a node of a cluster, and what makes it a session of a principal.
func sharing(t *testing.T, docs store.Docs, name string) (m *recalls, join func(principal string) (*sessionState, *mcp.Session)) {
	m = &recalls{docs: docs, self: name, shared: true}
	t.Cleanup(m.close)
	return m, func(principal string) (*sessionState, *mcp.Session) {
		s := mcp.NewSession("", principal)
		st := newSessionState(s)
		st.ledger = &dispatch.Ledger{}
		m.join(&mcp.Request{Version: mcp.V20260728, Session: s}, st)
		return st, s
	}
}

// TestSharedRecall: what a principal was shown at one node, and its calls there, are known at the others two seconds
// later, in both directions, and at nodes that start.
func TestSharedRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "a", Namespace: "a"})
		var all []*sessionState
		node := func() {
			_, join := sharing(t, docs, fmt.Sprint("n", len(all)))
			st, _ := join("ann")
			all = append(all, st)
		}
		show := func(st *sessionState, id string) {
			st.arrange(c, []catalog.Card{{ID: id, Kind: primitive.KindTool, Description: "as " + st.recall.tally.self + " shows it"}}, false)
			st.mu.Lock()
			st.offerLocked(id)
			st.mu.Unlock()
		}
		known := func(calls int64, ids ...string) {
			t.Helper()
			time.Sleep(2500 * time.Millisecond)
			synctest.Wait()
			for i, st := range all {
				got := st.offeredIDs(c)
				slices.Sort(got)
				if !slices.Equal(got, ids) || st.ledger.Calls() != calls {
					t.Errorf("node %d: %v and %d calls, want %v and %d", i, got, st.ledger.Calls(), ids, calls)
				}
			}
		}
		node()
		node()
		show(all[0], "a:x")
		all[0].ledger.Resume(3, marking(all[0])) // as three calls
		all[0].remember()
		known(3, "a:x")
		show(all[1], "a:y")
		show(all[0], "a:z")
		all[1].ledger.Resume(2, marking(all[1]))
		known(5, "a:x", "a:y", "a:z")
		node()
		known(5, "a:x", "a:y", "a:z")
		for i, st := range all {
			got := st.arrange(c, []catalog.Card{{ID: "a:x", Kind: primitive.KindTool}, {ID: "a:y", Kind: primitive.KindTool}}, false)
			if len(got.cards) != 2 || !strings.Contains(got.cards[0].Description, "n0") || !strings.Contains(got.cards[1].Description, "n1") {
				t.Errorf("node %d: %+v", i, got.cards)
			}
		}
		doc, err := docs.Get(t.Context(), "p."+store.Hash("principal\x00ann"))
		if err != nil || doc.Rev == 0 {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if again, err := docs.Get(t.Context(), doc.Key); err != nil || again.Rev != doc.Rev {
			t.Errorf("the nodes write on: revision %d, then %d, %v", doc.Rev, again.Rev, err)
		}
	})
}

// TestSharedRecallEnds: sessions that end and begin anew at one node count no call twice, nothing stays in memory of
// them, and a store that is away delays a first request by a second.
func TestSharedRecallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		m, join := sharing(t, docs, "n0")
		_, joinOther := sharing(t, docs, "n1")
		other, _ := joinOther("ann")
		for i := range 3 {
			st, s := join("ann")
			if n := st.ledger.Calls(); n != int64(i) {
				t.Errorf("%d calls after %d", n, i)
			}
			st.ledger.Resume(1, marking(st))
			st.remember()
			s.Close()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			m.mu.Lock()
			if len(m.of)+len(m.dirty) > 0 {
				t.Errorf("%v and %v stay", m.of, m.dirty)
			}
			m.mu.Unlock()
		}
		if n := other.ledger.Calls(); n != 3 {
			t.Errorf("the other node knows of %d calls, want 3", n)
		}
		docs.Cut(true)
		began := time.Now()
		st, _ := join("bob")
		if took := time.Since(began); took > recallWait {
			t.Errorf("a first request waits for %v", took)
		}
		st.mu.Lock()
		st.offerLocked("a:x")
		st.mu.Unlock()
		time.Sleep(10 * time.Second)
		docs.Cut(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if far, _ := joinOther("bob"); len(far.offered) != 1 {
			t.Error("what was shown without the store is lost")
		}
	})
}

// slowFollow is a store whose answer to Follow waits for a channel, and that counts the follows that have not ended.
type slowFollow struct {
	store.Docs
	answer chan struct{}
	open   atomic.Int64
}

func (d *slowFollow) Follow(what string, f func(store.Doc)) (func(), error) {
	<-d.answer
	d.open.Add(1)
	stop, err := d.Docs.Follow(what, f)
	return func() { d.open.Add(-1); stop() }, err
}

// TestSharedRecallCloses: a follow that begins during the end of the gateway ends, too.
func TestSharedRecallCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &slowFollow{Docs: store.NewMemory(store.MemoryOptions{}), answer: make(chan struct{})}
		m, join := sharing(t, docs, "n0")
		join("ann")
		go m.close()
		synctest.Wait()
		close(docs.answer)
		m.close()
		if n := docs.open.Load(); n != 0 {
			t.Errorf("%d follows go on", n)
		}
	})
}

// TestTally: counters of processes that come, go and are put together have the right sum.
func TestTally(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type process struct {
		tally
		calls int64
	}
	var doc recallRecord
	var all []*process
	sum := int64(0)
	for i := range 5000 {
		if len(all) < 3 || i%40 == 0 {
			all = append(all, &process{tally: tally{self: fmt.Sprint("p", i), begun: true}})
			all[len(all)-1].calls = all[len(all)-1].hear(doc)
		}
		p := all[len(all)-1-random.IntN(min(3, len(all)))] // older ones have ended
		switch random.IntN(3) {
		case 0:
			p.calls++
			sum++
			p.put(&doc, p.calls)
			p.wrote = doc.By[p.self]
		case 1:
			p.calls += p.hear(doc)
		case 2:
			p.put(&recallRecord{Calls: doc.Calls, By: doc.By}, p.calls) // the write fails
		}
	}
	total := doc.Calls
	for _, n := range doc.By {
		total += n
	}
	if total != sum || len(doc.By) > maxCounters {
		t.Errorf("%d calls in %d counters, want %d", total, len(doc.By), sum)
	}
	for _, p := range all[len(all)-3:] {
		if p.calls += p.hear(doc); p.calls != sum {
			t.Errorf("%s has %d calls, want %d", p.self, p.calls, sum)
		}
	}
}
