package dispatch

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// shares are the ledgers of one principal at the nodes of a cluster.
type shares struct {
	docs  store.Docs
	all   []*Ledger
	grant []*Grants
}

func newShares(docs store.Docs, nodes int) *shares {
	s := &shares{docs: docs, all: make([]*Ledger, nodes), grant: make([]*Grants, nodes)}
	for i := range s.all {
		s.start(i)
	}
	return s
}

// start replaces a node, whose leases are lost.
func (s *shares) start(i int) {
	if s.grant[i] != nil {
		// A killed process gives nothing back.
		s.grant[i].mu.Lock()
		clear(s.grant[i].open)
		s.grant[i].mu.Unlock()
		s.grant[i].Close(context.Background())
	}
	s.grant[i], s.all[i] = NewGrants(s.docs, func() int { return len(s.all) }), new(Ledger)
	s.grant[i].Principal(s.all[i], "ann")
}

func (s *shares) close() {
	for _, g := range s.grant {
		g.Close(context.Background())
	}
}

// TestGrantsOverNodes: no minute has more calls than the limit over three nodes, of which some are killed,
// with a store that loses answers; and most of the limit is used.
func TestGrantsOverNodes(t *testing.T) {
	for _, limit := range []RateLimit{{PerMinute: 5}, {PerMinute: 24}, {PerMinute: 300}, {PerSession: 200}, {PerMinute: 60, PerSession: 200}} {
		for _, broken := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, uint64(limit.PerMinute)))
				docs, began := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}, time.Now()
				if broken {
					faults := rand.New(rand.NewPCG(2, uint64(limit.PerMinute)))
					docs.Next = func() storetest.Fault {
						if faults.IntN(10) == 0 {
							return storetest.Fault(faults.IntN(4))
						}
						return storetest.None
					}
				}
				s := newShares(docs, 3)
				defer s.close()
				scopes := []scope{{"one", limit}, {"two", RateLimit{PerMinute: 1000}}}
				var made []time.Duration
				for time.Since(began) < 4*time.Minute {
					i := random.IntN(3)
					if broken && random.IntN(100) == 0 {
						s.start(i)
					}
					if b := s.all[i].take(0, true, scopes); b == nil {
						made = append(made, time.Since(began))
					}
					time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
				}
				within, most := 0, 0
				for i, at := range made {
					for made[i-within] <= at-quotaWindow {
						within--
					}
					within++
					most = max(most, within)
				}
				t.Logf("%+v broken %v: %d calls, at most %d in a minute", limit, broken, len(made), most)
				if limit.PerMinute > 0 && most > limit.PerMinute {
					t.Errorf("%+v: %d calls in a minute", limit, most)
				}
				if limit.PerSession > 0 && len(made) > limit.PerSession {
					t.Errorf("%+v: %d calls in all", limit, len(made))
				}
				want := limit.PerSession
				if want == 0 {
					want = 4 * limit.PerMinute
				}
				if !broken && len(made) < want*8/10 {
					t.Errorf("%+v: only %d calls, want about %d", limit, len(made), want)
				}
			})
		}
	}
}

// TestGrantsAreGivenBack: calls that a node's lease has not let through are free for another node after the
// end of the lease, and at once when the node ends.
func TestGrantsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(store.NewMemory(store.MemoryOptions{}), 2)
		defer s.close()
		scopes := []scope{{"one", RateLimit{PerMinute: 80}}}
		count := func(l *Ledger) (n int, last *breach) {
			for last = l.take(0, true, scopes); last == nil; last = l.take(0, true, scopes) {
				n++
			}
			return n, last
		}
		if b := s.all[0].take(0, true, scopes); b != nil {
			t.Fatal(b.error())
		}
		if n, b := count(s.all[1]); n != 70 || b.away || b.retryAfter <= 0 {
			t.Errorf("%d calls at the second node, %+v; want 70: the first one has a lease of 10", n, b)
		}
		if b := s.all[1].take(0, false, scopes); b == nil || b.limit != 80 {
			t.Errorf("%+v, want the quota", b)
		}
		time.Sleep(leaseTime + 2*sweepTime)
		if n, _ := count(s.all[1]); n != 9 {
			t.Errorf("%d calls after the end of the lease, want 9", n)
		}
		time.Sleep(2 * time.Minute)
		if b := s.all[0].take(0, true, scopes); b != nil {
			t.Fatal(b.error())
		}
		s.all[0].End()
		if n, _ := count(s.all[1]); n != 79 {
			t.Errorf("%d calls after the end of the first node, want 79", n)
		}
		time.Sleep(2 * time.Minute)
		if b := s.all[0].take(0, true, scopes); b != nil {
			t.Fatal(b.error())
		}
		s.grant[0].Yield()
		if n, _ := count(s.all[1]); n != 79 {
			t.Errorf("%d calls after the first node has begun to drain, want 79", n)
		}
	})
}

// TestGrantsWithoutStore: a lease goes on while the store is away. Then calls are refused without waiting,
// and go on when it is back.
func TestGrantsWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		s := newShares(docs, 1)
		defer s.close()
		scopes := []scope{{"one", RateLimit{PerMinute: 16}}}
		take := func() *breach { return s.all[0].take(0, true, scopes) }
		if b := take(); b != nil {
			t.Fatal(b.error())
		}
		docs.Cut(true)
		for range 3 {
			if b := take(); b != nil {
				t.Error(b.error())
			}
		}
		if b := take(); b == nil || !b.away || b.retryAfter != leaseWait {
			t.Errorf("%+v, want a wait", b)
		}
		began := time.Now()
		if b := take(); b == nil || !b.away || time.Since(began) > 0 {
			t.Errorf("%+v after %v: the store was asked again at once", b, time.Since(began))
		}
		docs.Cut(false)
		time.Sleep(leaseWait)
		if b := take(); b != nil {
			t.Error(b.error())
		}
	})
}

// TestGrantDocument: the document of a busy principal stays small, and few calls write.
func TestGrantDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Docs: store.NewMemory(store.MemoryOptions{})}
		s := newShares(c.faults(), 3)
		defer s.close()
		for i := range 30_000 {
			if b := s.all[i%3].take(0, true, []scope{{"one", RateLimit{PerMinute: 30_000}}}); b != nil {
				t.Fatal(b.error())
			}
			time.Sleep(5 * time.Millisecond)
		}
		if c.writes > 300 {
			t.Errorf("%d requests to the store for 30,000 calls", c.writes)
		}
		doc, _ := c.Docs.Get(t.Context(), s.all[0].share.key+store.Hash("one"))
		var r grantRecord
		if err := json.Unmarshal(doc.Value, &r); err != nil || len(doc.Value) > 4000 {
			t.Errorf("%v, %d bytes", err, len(doc.Value))
		}
	})
}

// lateDocs is a store whose first write is made when the second one begins. Its caller has been told that the
// store does not answer.
type lateDocs struct {
	store.Docs
	first func() // makes the first write
	sets  int
}

func (d *lateDocs) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	switch d.sets++; d.sets {
	case 1:
		d.first = func() { _, _ = d.Docs.Set(context.Background(), key, value, rev, ttl) }
		time.Sleep(time.Second)
		return 0, store.ErrUnavailable
	case 2:
		d.first()
	}
	return d.Docs.Set(ctx, key, value, rev, ttl)
}

// TestGrantsOfALateWrite: a lease that an earlier attempt has written lets through what the document says,
// not what a later attempt would have written.
func TestGrantsOfALateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, nodes := &lateDocs{Docs: store.NewMemory(store.MemoryOptions{})}, 5
		g, l := NewGrants(docs, func() int { nodes--; return nodes }), new(Ledger)
		defer g.Close(context.Background())
		g.Principal(l, "ann")
		if b := l.take(0, true, []scope{{"one", RateLimit{PerMinute: 80}}}); b != nil {
			t.Fatal(b.error())
		}
		doc, err := docs.Get(t.Context(), l.share.key+store.Hash("one"))
		if err != nil {
			t.Fatal(err)
		}
		have, kept := l.share.granted["one"], readGrants(doc, "one").Grants
		if docs.sets < 2 || len(kept) != 1 || have.left+have.calls != kept[0].Calls || have.until.UnixMilli() > kept[0].Until {
			t.Errorf("after %d writes the lease is of %d calls until %d, and in the document %+v", docs.sets, have.left+have.calls, have.until.UnixMilli(), kept)
		}
	})
}

// TestGrantsAfterAReload: calls of leases from before a limit in all are not taken off it.
func TestGrantsAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(store.NewMemory(store.MemoryOptions{}), 2)
		defer s.close()
		if b := s.all[0].take(0, true, []scope{{"one", RateLimit{PerMinute: 800}}}); b != nil { // a lease of 100
			t.Fatal(b.error())
		}
		n, scopes := 0, []scope{{"one", RateLimit{PerSession: 20}}}
		for s.all[1].take(0, true, scopes) == nil && n < 100 {
			n++
			time.Sleep(time.Second)
		}
		if n != 20 {
			t.Errorf("%d calls, want 20", n)
		}
	})
}

// TestGrantsCloseInTime: a store that does not answer keeps the end of the process no longer than its caller waits.
func TestGrantsCloseInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &slowDocs{Docs: store.NewMemory(store.MemoryOptions{})}
		g := NewGrants(docs, func() int { return 2 })
		for _, name := range []string{"ann", "bob", "eve"} {
			l := new(Ledger)
			g.Principal(l, name)
			if b := l.take(0, true, []scope{{"one", RateLimit{PerMinute: 80}}}); b != nil {
				t.Fatal(b.error())
			}
		}
		docs.stalled.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		g.Close(ctx)
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
	})
}

// slowDocs are Docs that answer nothing once they are stalled.
type slowDocs struct {
	store.Docs
	stalled atomic.Bool
}

func (d *slowDocs) Get(ctx context.Context, key string) (store.Doc, error) {
	if d.stalled.Load() {
		<-ctx.Done()
		return store.Doc{}, store.ErrUnavailable
	}
	return d.Docs.Get(ctx, key)
}
