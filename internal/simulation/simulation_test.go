package simulation_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/linearity"
	"github.com/weir-mcp/weir/internal/store"
)

var (
	seedFlag = flag.Uint64("seed", 0, "the first seed of TestSimulation; 0: another one each time")
	count    = flag.Int("simulations", 8, "how many seeds TestSimulation takes")
)

// simulate runs one seed and returns what clients saw of offices.
func simulate(t *testing.T, seed uint64) *linearity.History {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), runs: map[string]int{}, answers: map[string]int{}}
	w.offices.sent, w.offices.got = map[string]string{}, map[string]string{}
	synctest.Test(t, func(t *testing.T) { w.live(t, seed) })
	return &w.offices.history
}

// live is all that happens in a world.
func (w *world) live(t *testing.T, seed uint64) {
	w.t, w.docs, w.bus = t, store.NewMemory(), tap{store.NewMemoryBus(), w}
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
	work.Go(w.counts)
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
		t.Error("no node had the strict claim")
	}
	if t.Failed() || *count == 1 {
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
					seen := simulate(t, seed)
					operations.Add(uint64(seen.Len()))
					if err := seen.Check(linearity.Offices(officeSize), time.Minute); err != nil {
						t.Error(err)
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
