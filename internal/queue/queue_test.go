package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sleeper runs for as long as its payload, a number of milliseconds, says.
func sleeper(ctx context.Context, j *Job) (json.RawMessage, error) {
	var ms int
	if err := json.Unmarshal(j.Payload, &ms); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return j.Payload, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func ms(n int) json.RawMessage { return json.RawMessage(fmt.Sprint(n)) }

// The time a task may take counts from the start of its execution: three tasks
// of 20 ms wait for each other without harm under a limit of 30 ms.
func TestTimeoutCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PlaceOptions{Run: sleeper, Timeout: 30 * time.Millisecond})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := q.Do(t.Context(), Spec{Payload: ms(20)}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		_, err := q.Do(t.Context(), Spec{Payload: ms(40)})
		var timeout *TimeoutError
		if !errors.Is(err, errTimeout) || !errors.As(err, &timeout) || timeout.Limit != 30*time.Millisecond {
			t.Errorf("too long: %v", err)
		}
		if _, err := q.Do(t.Context(), Spec{Payload: ms(40), Timeout: time.Second}); err != nil {
			t.Errorf("its own limit: %v", err)
		}
		if _, err := q.Do(t.Context(), Spec{Payload: ms(40_000), Timeout: -1}); err != nil {
			t.Errorf("no limit: %v", err)
		}
		task, err := q.Submit(Spec{Payload: ms(40)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.Wait(t.Context(), "", task.ID); err != nil || got.State != Failed || got.Reason != ReasonTimeout {
			t.Errorf("submitted: %+v, %v", got, err)
		}
	})
}

func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PlaceOptions{Run: sleeper, Max: 3, Concurrency: 2})
		for range 5 {
			if _, err := q.Submit(Spec{Payload: ms(100)}); err != nil {
				t.Fatal(err)
			}
		}
		want := Status{Queued: 3, Running: 2, Concurrency: 2, Max: 3}
		var full *FullError
		if _, err := q.Submit(Spec{Payload: ms(100)}); !errors.As(err, &full) || full.Status != want {
			t.Errorf("submit: %v", err)
		}
		if _, err := q.Do(t.Context(), Spec{Payload: ms(100)}); !errors.Is(err, errFull) {
			t.Errorf("do: %v", err)
		}
		time.Sleep(150 * time.Millisecond)
		if _, err := q.Do(t.Context(), Spec{Payload: ms(1)}); err != nil {
			t.Errorf("there is room again: %v", err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if got := q.Status(); got.Queued != 0 || got.Running != 0 {
			t.Errorf("at the end %+v", got)
		}
	})
}

// 1,000 callers on concurrency 1: order kept, nobody starves.
func TestThousandCallersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 1000
		var order []int // one runs at a time, so nothing guards it
		q := newQueue(t, PlaceOptions{Max: callers, Timeout: time.Hour, Run: func(ctx context.Context, j *Job) (json.RawMessage, error) {
			order = append(order, j.Value.(int))
			return sleeper(ctx, j)
		}})
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				if _, err := q.Do(t.Context(), Spec{Value: i, Payload: ms(1)}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it stands in the line
		}
		if got := q.Status(); got.Queued != callers-1 || got.Running != 1 {
			t.Errorf("all have come: %+v", got)
		}
		start := time.Now()
		all.Wait()
		if len(order) != callers || !slices.IsSorted(order) {
			t.Errorf("%d ran; in order: %v", len(order), slices.IsSorted(order))
		}
		if d := time.Since(start); d != callers*time.Millisecond {
			t.Errorf("it took %v: a place was left empty", d)
		}
	})
}

// The same with everything at once: all are served, never two together.
func TestThousandCallersAtOnce(t *testing.T) {
	var running, served atomic.Int32
	q := newQueue(t, PlaceOptions{Max: 1000, Run: func(context.Context, *Job) (json.RawMessage, error) {
		if n := running.Add(1); n != 1 {
			t.Errorf("%d run at once", n)
		}
		served.Add(1)
		running.Add(-1)
		return nil, nil
	}})
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if _, err := q.Do(t.Context(), Spec{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if served.Load() != 1000 {
		t.Errorf("%d were served", served.Load())
	}
}

func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		q := newQueue(t, PlaceOptions{Run: func(ctx context.Context, j *Job) (json.RawMessage, error) {
			order = append(order, j.Name)
			return sleeper(ctx, j)
		}})
		submit := func(name string, priority int) {
			if _, err := q.Submit(Spec{Name: name, Priority: priority, Payload: ms(1)}); err != nil {
				t.Fatal(err)
			}
		}
		submit("first", 0)
		synctest.Wait()
		submit("low", -100) // counts as the lowest
		for i := range 20 {
			submit(fmt.Sprint("high", i), 1)
		}
		submit("highest", 100)
		time.Sleep(time.Minute)
		synctest.Wait()
		if order[1] != "highest" || order[2] != "high0" {
			t.Errorf("order: %v", order)
		}
		if at := slices.Index(order, "low"); at != fairEvery {
			t.Errorf("the task that waited longest came at place %d, want %d: %v", at, fairEvery, order)
		}
		var high []string
		for _, name := range order {
			if strings.HasPrefix(name, "high") && name != "highest" {
				high = append(high, name)
			}
		}
		for i, name := range high {
			if name != fmt.Sprint("high", i) {
				t.Fatalf("order within a priority: %v", high)
			}
		}
	})
}

// A caller that goes away leaves the line, or ends what runs for it.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PlaceOptions{Run: sleeper, Timeout: time.Hour})
		gone := errors.New("the client is gone")
		run := func(after time.Duration) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer time.AfterFunc(after, func() { cancel(gone) }).Stop()
			_, err := q.Do(ctx, Spec{Payload: ms(1000)})
			return err
		}
		var all sync.WaitGroup
		for _, after := range []time.Duration{10 * time.Millisecond, 5 * time.Millisecond} {
			all.Go(func() {
				if err := run(after); !errors.Is(err, gone) {
					t.Errorf("after %v: %v", after, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if got := q.Status(); got.Queued != 0 || got.Running != 0 {
			t.Errorf("left behind: %+v", got)
		}
	})
}

// What does not end when it is told to holds its place for Grace only, and not
// without bound.
func TestStubbornTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		q := newQueue(t, PlaceOptions{Timeout: 100 * time.Millisecond, Grace: time.Second, Run: func(_ context.Context, j *Job) (json.RawMessage, error) {
			if j.Name == "stubborn" {
				<-free
			}
			return nil, nil
		}})
		start := time.Now()
		if _, err := q.Do(t.Context(), Spec{Name: "stubborn"}); !errors.Is(err, errTimeout) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d != 1100*time.Millisecond {
			t.Errorf("the caller waited %v", d)
		}
		if _, err := q.Do(t.Context(), Spec{Name: "good"}); err != nil {
			t.Errorf("the next: %v", err)
		}
		if _, err := q.Do(t.Context(), Spec{Name: "stubborn"}); !errors.Is(err, errTimeout) {
			t.Errorf("got %v", err)
		}
		if got := q.Status().Running; got != 1 {
			t.Errorf("the second one holds no place: %d", got)
		}
		close(free)
		synctest.Wait()
		if got := q.Status().Running; got != 0 || q.abandoned != 0 {
			t.Errorf("%d run, %d given away", got, q.abandoned)
		}
	})
}

func TestCancelRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PlaceOptions{Timeout: time.Hour, Run: func(ctx context.Context, j *Job) (json.RawMessage, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // cleans up
			return json.RawMessage(`"late"`), nil
		}})
		task, err := q.Submit(Spec{Owner: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for range 2 { // the second changes nothing
			got, err := q.Cancel("ann", task.ID)
			if err != nil || got.State != Cancelled || got.Reason != ReasonCancelled || got.Ended.Sub(got.Started) != time.Second {
				t.Errorf("cancel: %+v, %v", got, err)
			}
		}
		if got := q.Status().Running; got != 1 {
			t.Errorf("it still cleans up, but %d run", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got, err := q.Get("ann", task.ID)
		if err != nil || got.State != Cancelled || got.Result != nil || q.Status().Running != 0 {
			t.Errorf("later: %+v, %v, %+v", got, err, q.Status())
		}
	})
}

// A result beside an error is kept, a panic is an error of its task alone.
func TestFailures(t *testing.T) {
	broken := errors.New("exit status 3")
	q := newQueue(t, PlaceOptions{Run: func(_ context.Context, j *Job) (json.RawMessage, error) {
		if j.Name == "panics" {
			panic("secret")
		}
		return json.RawMessage(`{"isError":true}`), broken
	}})
	if result, err := q.Do(t.Context(), Spec{}); !errors.Is(err, broken) || string(result) != `{"isError":true}` {
		t.Errorf("do: %s, %v", result, err)
	}
	task, err := q.Submit(Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := q.Wait(t.Context(), "", task.ID); err != nil || got.State != Failed || got.Reason != ReasonError || string(got.Result) != `{"isError":true}` || got.Error != "exit status 3" {
		t.Errorf("submitted: %+v, %v", got, err)
	}
	if _, err := q.Do(t.Context(), Spec{Name: "panics"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("panic: %v", err)
	}
	if got := q.Status().Running; got != 0 {
		t.Errorf("%d run", got)
	}
}

func TestRetainAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openQueue(t, Options{PlaceOptions: PlaceOptions{Run: echo}, Docs: OpenMemory(), RetainAge: time.Hour})
		var ids []string
		for _, retain := range []time.Duration{0, time.Minute, 24 * time.Hour} {
			task, err := q.Submit(Spec{Retain: retain})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, task.ID)
		}
		readable := func() (n int) {
			for _, id := range ids {
				if _, err := q.Get("", id); err == nil {
					n++
				}
			}
			return n
		}
		for _, step := range []struct {
			d    time.Duration
			want int
		}{{0, 3}, {59 * time.Second, 3}, {time.Second, 2}, {58 * time.Minute, 2}, {time.Minute, 0}} {
			time.Sleep(step.d)
			synctest.Wait()
			if got := readable(); got != step.want {
				t.Errorf("%v later %d can be read, want %d", step.d, got, step.want)
			}
		}
		if len(q.tasks) != 0 || len(q.ended) != 0 || q.bytes != 0 {
			t.Errorf("%d tasks and %d bytes are left", len(q.tasks), q.bytes)
		}
	})
}

func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PlaceOptions{Run: sleeper})
		for range 4 {
			if _, err := q.Submit(Spec{Payload: ms(10)}); err != nil {
				t.Fatal(err)
			}
		}
		q.Resize(3, 0)
		if got := q.Status(); got != (Status{Queued: 1, Running: 3, Concurrency: 3, Max: 1024}) {
			t.Errorf("wider: %+v", got)
		}
		q.Resize(1, 1)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if got := q.Status(); got != (Status{Running: 1, Concurrency: 1, Max: 1}) {
			t.Errorf("narrower: %+v", got)
		}
		time.Sleep(time.Second)
	})
}

// Close lets what runs finish, and tells those who wait.
func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := OpenMemory()
		q := openQueue(t, Options{PlaceOptions: PlaceOptions{Run: sleeper}, Docs: docs})
		var all sync.WaitGroup
		var first, second error
		all.Go(func() { _, first = q.Do(t.Context(), Spec{Payload: ms(100)}) })
		synctest.Wait()
		all.Go(func() { _, second = q.Do(t.Context(), Spec{Payload: ms(100)}) })
		if _, err := q.Submit(Spec{Payload: ms(1)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
		if first != nil || !errors.Is(second, ErrClosed) {
			t.Errorf("running: %v, waiting: %v", first, second)
		}
		if left := records(t, docs); len(left) != 1 || left[0].State != Pending {
			t.Errorf("the store has %+v", left)
		}
		if err := q.Close(t.Context()); err != nil {
			t.Errorf("twice: %v", err)
		}
	})
}
