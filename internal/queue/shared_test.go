package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/lease"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// group is replicas of a shared queue over one store in memory.
type group struct {
	t    *testing.T
	docs *store.Memory
	next func() storetest.Fault // of the replicas that are made; nil: none

	mu     sync.Mutex // guards below
	starts map[string][]string
}

func newGroup(t *testing.T) *group {
	return &group{t: t, docs: store.NewMemory(store.MemoryOptions{}), starts: map[string][]string{}}
}

// replica returns a replica that runs tasks one at a time, and the faults of its store.
func (g *group) replica(name string, o PlaceOptions) (*Queue, *storetest.Faults) {
	g.t.Helper()
	faults := &storetest.Faults{Docs: g.docs, Next: g.next, Wait: time.Millisecond}
	run := o.Run
	if run == nil {
		run = sleeper
	}
	o.Run = func(ctx context.Context, j *Job) (json.RawMessage, error) {
		g.mu.Lock()
		g.starts[j.ID] = append(g.starts[j.ID], name)
		g.mu.Unlock()
		fmt.Fprintf(j, "at %s\n", name)
		return run(ctx, j)
	}
	s, err := New(Options{PlaceOptions: o, Docs: faults, Group: "g"})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ctx)
	})
	return s, faults
}

func (g *group) submit(s *Queue, spec Spec) string {
	g.t.Helper()
	spec.Owner = "ann"
	task, err := s.Submit(spec)
	if err != nil {
		g.t.Fatal(err)
	}
	return task.ID
}

func (g *group) wait(s *Queue, id string, state State) Task {
	g.t.Helper()
	task, err := s.Wait(g.t.Context(), "ann", id)
	if err != nil || task.State != state {
		g.t.Errorf("task %s: %+v, %v, want %s", id, task, err, state)
	}
	return task
}

// TestSharedLine: replicas take tasks from one line, each task starts once, every replica tells how it
// ended, and other owners learn nothing.
func TestSharedLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, _ := g.replica("a", PlaceOptions{})
		b, _ := g.replica("b", PlaceOptions{})
		synctest.Wait()
		var ids []string
		for range 40 {
			ids = append(ids, g.submit(a, Spec{Name: "t", Payload: ms(100)}))
		}
		began := time.Now()
		for _, id := range ids {
			if got := g.wait(b, id, Completed); string(got.Result) != "100" || !strings.HasPrefix(got.LogTail, "at ") {
				t.Errorf("%+v", got)
			}
		}
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("40 tasks of 100 ms at two places took %v", took)
		}
		at := map[string]int{}
		g.mu.Lock()
		defer g.mu.Unlock()
		for id, names := range g.starts {
			if len(names) != 1 {
				t.Errorf("%s was started %d times", id, len(names))
			}
			at[names[0]]++
		}
		if at["a"] < 10 || at["b"] < 10 {
			t.Errorf("starts: %v", at)
		}
		for _, s := range []*Queue{a, b} {
			if _, err := s.Get("bob", ids[0]); !errors.Is(err, ErrNotFound) {
				t.Errorf("another owner: %v", err)
			}
			page, more, err := s.List("ann", "", 25)
			if err != nil || !more || len(page) != 25 || page[0].Owner != "ann" {
				t.Errorf("list: %d, %v, %v", len(page), more, err)
			}
			if page, more, err = s.List("ann", page[24].ID, 25); err != nil || more || len(page) != 15 {
				t.Errorf("second page: %d, %v, %v", len(page), more, err)
			}
			if page, _, err := s.List("bob", "", 10); len(page) != 0 || err != nil {
				t.Errorf("list of another owner: %v, %v", page, err)
			}
		}
		time.Sleep(2 * time.Hour)
		if _, err := a.Get("ann", ids[0]); !errors.Is(err, ErrNotFound) {
			t.Errorf("after its time: %v", err)
		}
	})
}

// TestSharedPriority: the higher priority goes first, else the order of arrival.
func TestSharedPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		var mu sync.Mutex
		var order []string
		a, _ := g.replica("a", PlaceOptions{Max: 3, Run: func(ctx context.Context, j *Job) (json.RawMessage, error) {
			mu.Lock()
			order = append(order, j.Name)
			mu.Unlock()
			return sleeper(ctx, j)
		}})
		synctest.Wait()
		g.submit(a, Spec{Name: "running", Payload: ms(100)})
		synctest.Wait()
		g.submit(a, Spec{Name: "first", Payload: ms(1)})
		g.submit(a, Spec{Name: "second", Payload: ms(1)})
		last := g.submit(a, Spec{Name: "urgent", Payload: ms(1), Priority: 5})
		var full *FullError
		if _, err := a.Submit(Spec{Payload: ms(1)}); !errors.As(err, &full) || full.Status.Queued != 3 || full.Status.Max != 3 {
			t.Errorf("over the bound: %v", err)
		}
		g.wait(a, last, Completed)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(order, " "); got != "running urgent first second" {
			t.Error(got)
		}
	})
}

// TestSharedCancel: a task is cancelled from another replica, waiting or running.
func TestSharedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, _ := g.replica("a", PlaceOptions{})
		synctest.Wait()
		id := g.submit(a, Spec{Payload: ms(20_000)})
		waits := g.submit(a, Spec{Payload: ms(20_000)})
		synctest.Wait()
		b, _ := g.replica("b", PlaceOptions{})
		for _, id := range []string{waits, id} {
			if task, err := b.Cancel("bob", id); !errors.Is(err, ErrNotFound) {
				t.Errorf("by another owner: %v, %v", task, err)
			}
		}
		if task, err := b.Cancel("ann", waits); err != nil || task.State != Cancelled {
			t.Errorf("of its own, or of none: %+v, %v", task, err)
		}
		began := time.Now()
		if task, err := b.Cancel("ann", id); err != nil || task.State != Cancelled {
			t.Errorf("%+v, %v", task, err)
		}
		g.wait(a, id, Cancelled)
		synctest.Wait()
		if n := a.Status().Running; n != 0 || time.Since(began) > time.Second {
			t.Errorf("%d still run after %v", n, time.Since(began))
		}
		if task, err := b.Cancel("ann", id); err != nil || task.State != Cancelled {
			t.Errorf("again: %+v, %v", task, err)
		}
	})
}

// TestSharedHolderGone: if a replica loses the store, its tasks end there before others take them over:
// interrupted, or started again if they are idempotent, at most three times.
func TestSharedHolderGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, faults := g.replica("a", PlaceOptions{Timeout: time.Hour, Concurrency: 2})
		synctest.Wait()
		once := g.submit(a, Spec{Payload: ms(60_000)})
		again := g.submit(a, Spec{Payload: ms(60_000), Idempotent: true})
		synctest.Wait()
		b, _ := g.replica("b", PlaceOptions{Timeout: time.Hour})
		faults.Cut(true)
		began := time.Now()
		for a.Status().Running > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		fenced := time.Since(began)
		if got := g.wait(b, once, Failed); got.Reason != ReasonInterrupted {
			t.Errorf("%+v", got)
		}
		if took := time.Since(began); fenced > lease.FenceAfter+time.Second || took < fenced || took > lease.TTL+2*lease.RenewEvery {
			t.Errorf("fenced after %v, taken over after %v", fenced, took)
		}
		g.wait(b, again, Completed)
		if got := strings.Join(g.starts[again], " "); got != "a b" {
			t.Error(got)
		}
		faults.Cut(false)
		time.Sleep(time.Minute)
		g.wait(a, g.submit(a, Spec{Payload: ms(1)}), Completed)
		if len(g.starts[once]) != 1 {
			t.Errorf("started %d times", len(g.starts[once]))
		}
	})
}

// TestSharedStops: a replica that stops gives its idempotent tasks back at once, and says of the
// others that they were interrupted.
func TestSharedStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, _ := g.replica("a", PlaceOptions{Concurrency: 2})
		synctest.Wait()
		once := g.submit(a, Spec{Payload: ms(20_000)})
		again := g.submit(a, Spec{Payload: ms(20_000), Idempotent: true})
		synctest.Wait()
		waits := g.submit(a, Spec{Payload: ms(10)})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := a.Submit(Spec{}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		b, _ := g.replica("b", PlaceOptions{})
		if got := g.wait(b, once, Failed); got.Reason != ReasonInterrupted {
			t.Errorf("%+v", got)
		}
		g.wait(b, again, Completed)
		g.wait(b, waits, Completed)
	})
}

// TestSharedDrain: a task that runs when its replica closes may finish for as long as Close waits, and
// others do not take it for interrupted.
func TestSharedDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, _ := g.replica("a", PlaceOptions{Timeout: time.Hour})
		synctest.Wait()
		id := g.submit(a, Spec{Name: "t", Payload: ms(60_000)})
		time.Sleep(time.Second)
		b, _ := g.replica("b", PlaceOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		holder := a.lease.Name()
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
		g.wait(b, id, Completed)
		if d, err := g.docs.Get(t.Context(), "th.g."+holder); err != nil || d.Rev != 0 {
			t.Errorf("the holder that has left is still there: %v, %v", d, err)
		}
	})
}

// TestSharedClaimUnconfirmed: a task whose claim was written and not confirmed waits again.
func TestSharedClaimUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a, _ := g.replica("a", PlaceOptions{})
		synctest.Wait()
		first := g.submit(a, Spec{Name: "t", Payload: ms(1000)})
		id := g.submit(a, Spec{Name: "t", Payload: ms(10)}) // it waits for the first
		if _, err := a.change(t.Context(), id, func(rec *document) bool {
			rec.State, rec.Holder, rec.Started, rec.Starts = Running, a.lease.Name(), time.Now(), 1
			return true
		}); err != nil {
			t.Fatal(err)
		}
		g.wait(a, first, Completed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if task, err := a.Wait(ctx, "ann", id); err != nil || task.State != Completed {
			t.Errorf("%+v, %v", task, err)
		}
	})
}

// TestSharedFaults: with a store that fails in all its ways, an acknowledged task starts at most once
// and ends.
func TestSharedFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		kinds := []storetest.Fault{storetest.None, storetest.None, storetest.Drop, storetest.None, storetest.ApplyThenFail, storetest.ConflictFalsely, storetest.None}
		var mu sync.Mutex
		n := 0
		g.next = func() storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			n++
			return kinds[(n*n+n/3)%len(kinds)]
		}
		var replicas []*Queue
		for _, name := range []string{"a", "b", "c"} {
			s, _ := g.replica(name, PlaceOptions{})
			replicas = append(replicas, s)
		}
		var ids []string
		for i := range 60 {
			task, err := replicas[i%3].Submit(Spec{Owner: "ann", Payload: ms(10)})
			if err == nil {
				ids = append(ids, task.ID)
			}
		}
		if len(ids) < 30 {
			t.Errorf("only %d tasks were taken", len(ids))
		}
		for _, id := range ids {
			var task Task
			err := errors.New("not asked")
			for range 100 {
				if task, err = replicas[0].Wait(t.Context(), "ann", id); err == nil {
					break
				}
			}
			if err != nil || task.State != Completed {
				t.Errorf("%s: %+v, %v", id, task, err)
			}
		}
		for id, names := range g.starts {
			if len(names) > 1 {
				t.Errorf("%s was started by %v", id, names)
			}
		}
	})
}

// TestRestartOfIdempotent: after a crash, a task that may be repeated waits again with its payload, three
// times at most.
func TestRestartOfIdempotent(t *testing.T) {
	places(t, func(t *testing.T, open func() (store.Docs, func())) {
		docs, end := open()
		rec := record{ID: "again", Seq: 1, Owner: "ann", State: Running, Retain: time.Hour, Payload: ms(1), Idempotent: true, Starts: 2}
		save(t, docs, document{record: rec, Holder: "gone"})
		rec.ID, rec.Seq, rec.Starts = "enough", 2, 3
		save(t, docs, document{record: rec, Holder: "gone"})
		end()
		docs, end = open()
		q := openQueue(t, Options{PlaceOptions: PlaceOptions{Run: sleeper}, Docs: docs, Close: end})
		if task, err := q.Wait(t.Context(), "ann", "again"); err != nil || task.State != Completed || string(task.Result) != "1" {
			t.Errorf("%+v, %v", task, err)
		}
		if task, err := q.Wait(t.Context(), "ann", "enough"); err != nil || task.State != Failed || task.Reason != ReasonInterrupted {
			t.Errorf("%+v, %v", task, err)
		}
	})
}

// TestGroupNames refuses names of groups whose keys would be those of others.
func TestGroupNames(t *testing.T) {
	for _, name := range []string{"a.b", "a b", "gw", "gwid"} {
		if s, err := New(Options{Docs: store.NewMemory(store.MemoryOptions{}), Group: name}); err == nil {
			_ = s.Close(t.Context())
			t.Errorf("the group %q was taken", name)
		}
	}
}

// TestSharedSeesAnEarlierState: a store that has lost a change may tell of a task that runs after it has told of its end.
// The second end is no news.
func TestSharedSeesAnEarlierState(t *testing.T) {
	s, err := New(Options{PlaceOptions: PlaceOptions{Run: sleeper}, Docs: store.NewMemory(store.MemoryOptions{}), Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for rev, state := range []State{Running, Completed, Running, Completed} {
		var rec document
		rec.ID, rec.Owner, rec.State = "x", "ann", state
		s.saw(uint64(rev+1), rec)
	}
	s.follow(store.Doc{Key: s.key("x")})
	if _, there := s.tasks["x"]; there {
		t.Error("a task that was removed is known")
	}
}
