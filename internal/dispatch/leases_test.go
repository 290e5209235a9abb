package dispatch

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// counted counts the writes to a store.
type counted struct {
	store.Docs
	writes int
}

func (c *counted) faults() *storetest.Faults {
	return &storetest.Faults{Docs: c.Docs, Next: func() storetest.Fault { c.writes++; return storetest.None }}
}

// TestLeasesOverKills: whenever the process is killed, no minute has more calls than the quota, and no
// holder more in all. The quota is nearly used up in the end.
func TestLeasesOverKills(t *testing.T) {
	for _, limit := range []RateLimit{{PerMinute: 5}, {PerMinute: 40}, {PerMinute: 500}, {PerSession: 200}, {PerMinute: 30, PerSession: 400}} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(limit.PerMinute)))
			docs, began := store.NewMemory(store.MemoryOptions{}), time.Now()
			var made []time.Duration
			var l *Ledger
			kills := 0
			for range 3_000 {
				if l == nil || random.IntN(100) == 0 {
					if l != nil && random.IntN(4) == 0 {
						l.End() // a restart that is no kill
					}
					l, kills = &Ledger{Leases: newLeases(docs, "ann")}, kills+1
				}
				scopes := []scope{{"one", limit}, {"two", RateLimit{PerMinute: 1000}}}
				if now := time.Since(began); l.take(now, true, scopes) == nil {
					made = append(made, now)
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
			if limit.PerMinute > 0 && most > limit.PerMinute {
				t.Errorf("%+v: %d calls in a minute", limit, most)
			}
			if limit.PerSession > 0 && len(made) > limit.PerSession {
				t.Errorf("%+v: %d calls in all", limit, len(made))
			}
			if limit.PerSession == 200 && len(made) < 200-kills*200/leaseShare || limit.PerMinute == 5 && len(made) < 15 {
				t.Errorf("%+v: only %d calls in all, with %d kills", limit, len(made), kills)
			}
		})
	}
}

// TestLeasesCount: within the process the Ledger counts exactly, a restart that is no kill keeps that,
// and few calls write.
func TestLeasesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := &counted{Docs: store.NewMemory(store.MemoryOptions{})}, time.Now()
		docs := c.faults()
		scopes := []scope{{"one", RateLimit{PerMinute: 320}}}
		l := &Ledger{Leases: newLeases(docs, "ann")}
		take := func(want int) {
			t.Helper()
			n := 0
			for l.take(time.Since(began), true, scopes) == nil {
				n++
			}
			if n != want {
				t.Errorf("%d calls, want %d", n, want)
			}
		}
		for range 100 {
			if b := l.take(time.Since(began), true, scopes); b != nil {
				t.Fatal(b.error())
			}
		}
		if c.writes > 10 {
			t.Errorf("%d requests to the store for 100 calls", c.writes)
		}
		l.End()
		l = &Ledger{Leases: newLeases(docs, "ann")}
		take(220)
		if b := l.take(time.Since(began), false, scopes); b == nil || b.retryAfter > quotaWindow {
			t.Errorf("%+v", b)
		}
		time.Sleep(2 * time.Minute)
		take(320)
	})
}

// TestLeasesWithoutStore: a lease goes on while the store is away. Then calls with a quota are refused
// without waiting, and go on when the store is back.
func TestLeasesWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, began := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}, time.Now()
		l := &Ledger{Leases: newLeases(docs, "ann")}
		scopes := []scope{{"one", RateLimit{PerMinute: 64}}}
		take := func() *breach { return l.take(time.Since(began), true, scopes) }
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
		docs.Cut(false)
		if b := take(); b == nil || !b.away {
			t.Errorf("the store was asked again at once")
		}
		time.Sleep(leaseWait)
		if b := take(); b != nil {
			t.Error(b.error())
		}
	})
}

// TestLeasesOfTwo: two ledgers of one holder, one of which is about to end, share the quota.
func TestLeasesOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, n := store.NewMemory(store.MemoryOptions{}), 0
		both := []*Ledger{{Leases: newLeases(docs, "ann")}, {Leases: newLeases(docs, "ann")}}
		for i := range 200 {
			if both[i%2].take(0, true, []scope{{"one", RateLimit{PerSession: 50}}}) == nil {
				n++
			}
		}
		if n == 0 || n > 50 {
			t.Errorf("%d calls, want at most 50", n)
		}
	})
}

// TestLeaseDocument: the document of a busy holder stays small.
func TestLeaseDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, began := store.NewMemory(store.MemoryOptions{}), time.Now()
		k := newLeases(docs, "ann")
		l := &Ledger{Leases: k}
		for range 60_000 {
			if b := l.take(time.Since(began), true, []scope{{"one", RateLimit{PerMinute: 100_000, PerSession: 1_000_000}}}); b != nil {
				t.Fatal(b.error())
			}
			time.Sleep(2 * time.Millisecond)
		}
		if doc, _ := docs.Get(t.Context(), k.key); len(doc.Value) > 1000 {
			t.Errorf("%d bytes", len(doc.Value))
		}
	})
}
