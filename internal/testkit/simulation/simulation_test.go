package simulation_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/linearity"
)

var (
	seedFlag = flag.Uint64("seed", 1, "the first seed of TestSimulation; 0: another one each time")
	count    = flag.Int("simulations", 8, "how many seeds TestSimulation takes")
)

// simulate runs one seed over documents, and returns what went wrong and the number of joins and leaves.
func simulate(t *testing.T, seed uint64, docs store.Docs) (failures []string, operations int) {
	w := &world{random: rand.New(rand.NewPCG(seed, 0)), runs: map[string]int{}, answers: map[string]int{}, docs: docs}
	w.offices.sent, w.offices.got = map[string]string{}, map[string]string{}
	synctest.Test(t, func(t *testing.T) { w.live(t, seed) })
	if err := w.offices.history.Check(linearity.Offices(officeSize), time.Minute); err != nil {
		w.wrong("%v", err)
	}
	return w.failures, w.offices.history.Len()
}

// live is all that happens in a world.
func (w *world) live(t *testing.T, seed uint64) {
	w.t, w.bus = t, tap{store.NewMemoryBus(), w}
	w.began, w.end = time.Now(), make(chan struct{})
	w.until = w.began.Add(breakTime)
	t.Cleanup(func() {
		w.ending.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, g := range w.offices.left {
			g.close()
		}
		var all sync.WaitGroup
		for _, n := range w.all() {
			all.Go(func() { n.stop(ctx) })
		}
		all.Wait()
		time.Sleep(2 * time.Minute) // a request at a killed node may have left an idle connection
	})
	for i := range nodes {
		w.start(i)
	}
	var work sync.WaitGroup
	var sessions []string
	for i, n := range w.all() {
		session := fmt.Sprintf("%s-%d", n.Inc(), i)
		sessions = append(sessions, session)
		work.Go(func() { w.calls(session) })
		work.Go(func() { w.claims(i) })
	}
	work.Go(w.submits)
	for range 2 {
		work.Go(w.counts)
	}
	for i := range guests {
		work.Go(func() { w.visits("computer", fmt.Sprint("desk", i%officeNames)) })
	}
	for i := range agents {
		work.Go(func() { w.visits("agent", fmt.Sprint("agent", i)) })
	}
	w.breaksThings()
	time.Sleep(5 * time.Second)
	close(w.end)
	work.Wait()
	time.Sleep(quietTime)
	w.goOn(sessions)
	w.ended()
	w.membersAgree()
	w.once()
	w.within()
	if w.held == 0 {
		w.wrong("no node had the strict claim")
	}
	if len(w.failures) > 0 || *count == 1 {
		t.Logf("seed %d: %v, %d tasks, %d strict claims, %d calls with a quota", seed, w.answers, len(w.accepted), w.held, len(w.counted))
	}
}

// TestSimulation: with a store and a bus that fail, and nodes that are apart from each other or killed, by many seeds:
// a strict claim has one holder, calls are answered and run once at most, tasks that were accepted end and start once
// at most, sessions go on, no minute has more calls than the quota, a call comes to the membership that it names, and
// joins and leaves are linearizable. A seed does not fix the order of goroutines that are ready at the same time.
func TestSimulation(t *testing.T) {
	first, began := *seedFlag, time.Now()
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	last := first + uint64(*count) - 1
	t.Logf("seeds %d to %d; one of them: make simulation SEEDS=1 SEED=N", first, last)
	var next, operations atomic.Uint64
	next.Store(first)
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("lane", i), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed <= last; seed = next.Add(1) - 1 {
					failures, seen := simulate(t, seed, store.NewMemory(store.MemoryOptions{}))
					operations.Add(uint64(seen))
					for _, failure := range failures {
						t.Error(failure)
					}
					if t.Failed() {
						t.Fatalf("seed %d fails", seed)
					}
				}
			})
		}
	})
	t.Logf("%d seeds, with %d joins and leaves, in %v", *count, operations.Load(), time.Since(began).Round(time.Millisecond))
}

// careless is a store without compare-and-set for some documents.
type careless struct {
	*store.Memory
	prefix string
}

// Set implements store.Docs. It is slow, and replaces what another party has written meanwhile.
func (c careless) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if strings.HasPrefix(key, c.prefix) {
		time.Sleep(100 * time.Millisecond)
	}
	for {
		now, err := c.Memory.Set(ctx, key, value, rev, ttl)
		if !strings.HasPrefix(key, c.prefix) || !errors.Is(err, store.ErrConflict) {
			return now, err
		}
		doc, err := c.Memory.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		rev = doc.Rev
	}
}

// TestBrokenPromises: the simulation finds what a store does that loses changes. A simulation that cannot fail would
// prove nothing.
func TestBrokenPromises(t *testing.T) {
	for _, c := range []struct{ prefix, finds string }{
		{"o.", "what clients saw has no order"},
		{"q.", "the quota is"},
		{"u.", "has a strict claim while"},
		{"t.", "ran 2 times"},
	} {
		t.Run(c.prefix, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(100) {
				failures, _ := simulate(t, seed+1, careless{store.NewMemory(store.MemoryOptions{}), c.prefix})
				if slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, c.finds) }) {
					t.Logf("found with seed %d", seed+1)
					return
				}
			}
			t.Errorf("no seed finds %q", c.finds)
		})
	}
}
