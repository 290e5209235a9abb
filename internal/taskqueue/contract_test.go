package taskqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// stores are the implementations of Store: open is called again, for the same
// place, to see what a restart finds.
func stores(t *testing.T, test func(t *testing.T, open func() Store)) {
	t.Run("memory", func(t *testing.T) {
		m := NewMemory()
		test(t, func() Store { return m })
	})
	for _, o := range []struct {
		name string
		FileOptions
	}{{"file", FileOptions{}}, {"file without fsync", FileOptions{NoSync: true}}} {
		t.Run(o.name, func(t *testing.T) {
			dir := t.TempDir()
			test(t, func() Store {
				s, err := OpenFile(dir, o.FileOptions)
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

func TestStoreContract(t *testing.T) {
	stores(t, func(t *testing.T, open func() Store) {
		s := open()
		if all, err := s.Load(); err != nil || len(all) != 0 {
			t.Fatalf("a new store holds %v, %v", all, err)
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		records := []Record{
			{ID: "b", Seq: 2, Owner: "ann", Name: "add", State: Completed, Created: now, Ended: now, Result: json.RawMessage(`{"n":12345678901234567890}`), LogTail: "line\n", LogSeq: 3, LogCut: true},
			{ID: "a", Seq: 1, Owner: "bob", Name: "add", State: Pending, Priority: 3, Timeout: time.Second, Payload: json.RawMessage(`{"x": "\u00fc"}`)},
			{ID: "gone", Seq: 3, State: Pending},
		}
		for _, r := range records {
			if err := s.Save(r); err != nil {
				t.Fatal(err)
			}
		}
		again := records[1]
		again.State, again.Payload = Running, nil
		if err := s.Save(again); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove("gone", "never was"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = open()
		defer s.Close()
		all, err := s.Load()
		if err != nil || len(all) != 2 {
			t.Fatalf("loaded %v, %v", all, err)
		}
		if all[0].ID != "a" || all[0].State != Running || all[0].Payload != nil || all[0].Priority != 3 || all[0].Timeout != time.Second {
			t.Errorf("record a is %+v", all[0])
		}
		if b := all[1]; b.ID != "b" || string(b.Result) != string(records[0].Result) || b.LogTail != "line\n" || b.LogSeq != 3 || !b.LogCut || !b.Ended.Equal(now) {
			t.Errorf("record b is %+v", b)
		}
	})
}

// newQueue makes a queue that the test closes.
func newQueue(t *testing.T, o Options) *Queue {
	t.Helper()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = q.Close(ctx)
	})
	return q
}

// echo returns the payload.
func echo(_ context.Context, j *Job) (json.RawMessage, error) { return j.Payload, nil }

// What a Queue promises over any Store.
func TestQueueContract(t *testing.T) {
	stores(t, func(t *testing.T, open func() Store) {
		block := make(chan struct{})
		started := make(chan string, 10)
		run := func(ctx context.Context, j *Job) (json.RawMessage, error) {
			fmt.Fprintf(j, "hello from %s\n", j.Name)
			started <- j.Name
			if j.Name == "quick" {
				return j.Payload, nil
			}
			select {
			case <-block:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return j.Payload, nil
		}
		q := newQueue(t, Options{Run: run, Store: open()})
		submit := func(name string) Task {
			t.Helper()
			task, err := q.Submit(Spec{Owner: "ann", Name: name, Payload: json.RawMessage(`{"of":"` + name + `"}`)})
			if err != nil {
				t.Fatal(err)
			}
			return task
		}
		quick := submit("quick")
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got, err := q.Wait(ctx, "ann", quick.ID)
		if err != nil || got.State != Completed || string(got.Result) != `{"of":"quick"}` || got.LogTail != "hello from quick\n" || got.LogSeq != 1 {
			t.Fatalf("quick: %+v, %v", got, err)
		}
		slow := submit("slow")
		<-started
		later, doomed := submit("later"), submit("doomed")
		if s := q.Status(); s != (Status{Queued: 2, Running: 1, Concurrency: 1, Max: 1024}) {
			t.Errorf("status %+v", s)
		}
		if got, err := q.Cancel("ann", doomed.ID); err != nil || got.State != Cancelled {
			t.Errorf("cancel: %+v, %v", got, err)
		}
		for _, id := range []string{quick.ID, slow.ID, later.ID} {
			if _, err := q.Get("bob", id); !errors.Is(err, ErrNotFound) {
				t.Errorf("bob reads ann's task: %v", err)
			}
			if _, err := q.Cancel("bob", id); !errors.Is(err, ErrNotFound) {
				t.Errorf("bob cancels ann's task: %v", err)
			}
		}
		over, end := context.WithCancel(t.Context())
		end()
		if err := q.Close(over); !errors.Is(err, context.Canceled) {
			t.Fatalf("close: %v", err)
		}
		if _, err := q.Submit(Spec{}); !errors.Is(err, ErrClosed) {
			t.Errorf("submit after close: %v", err)
		}

		// The next process.
		close(block)
		q = newQueue(t, Options{Run: run, Store: open()})
		for id, want := range map[string]State{quick.ID: Completed, slow.ID: Failed, later.ID: Completed, doomed.ID: Cancelled} {
			got, err := q.Wait(ctx, "ann", id)
			if err != nil || got.State != want {
				t.Errorf("after the restart %s is %s (%v), want %s", got.Name, got.State, err, want)
			}
			switch id {
			case quick.ID:
				if string(got.Result) != `{"of":"quick"}` || got.LogTail != "hello from quick\n" || got.LogSeq != 1 {
					t.Errorf("quick lost something: %+v", got)
				}
			case slow.ID:
				if got.Reason != ReasonInterrupted || !strings.Contains(got.Error, "interrupted") {
					t.Errorf("slow: %+v", got)
				}
			case later.ID:
				if string(got.Result) != `{"of":"later"}` {
					t.Errorf("later: %+v", got)
				}
			}
		}
		if ran := <-started; ran != "later" || len(started) != 0 {
			t.Errorf("after the restart %s ran first, and %d others", ran, len(started))
		}
		tasks, more, err := q.List("ann", "", 3)
		if err != nil || !more || len(tasks) != 3 || tasks[0].ID != quick.ID || tasks[2].ID != later.ID {
			t.Errorf("list: %v, %v, %v", tasks, more, err)
		}
		if tasks, more, err = q.List("ann", later.ID, 3); err != nil || more || len(tasks) != 1 || tasks[0].ID != doomed.ID {
			t.Errorf("list goes on: %v, %v, %v", tasks, more, err)
		}
	})
}

// Ended tasks are bounded in number and bytes, and the store forgets them, too.
func TestRetention(t *testing.T) {
	stores(t, func(t *testing.T, open func() Store) {
		for _, c := range []struct {
			name    string
			o       Options
			payload int
			kept    int
		}{
			{"count", Options{RetainCount: 3}, 10, 3},
			{"bytes", Options{RetainBytes: 3 * 1100}, 512, 3},
			{"one larger than the bound", Options{RetainBytes: 100}, 512, 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				store := open()
				c.o.Run, c.o.Store = echo, store
				q := newQueue(t, c.o)
				payload, _ := json.Marshal(strings.Repeat("x", c.payload))
				for range 10 {
					task, err := q.Submit(Spec{Payload: payload})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := q.Wait(t.Context(), "", task.ID); err != nil {
						t.Fatal(err)
					}
				}
				tasks, _, err := q.List("", "", 100)
				if err != nil || len(tasks) != c.kept {
					t.Errorf("%d tasks are kept, %v", len(tasks), err)
				}
				if err := q.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				store = open()
				left, err := store.Load()
				if err != nil || len(left) != c.kept {
					t.Errorf("the store kept %d, %v", len(left), err)
				}
				for _, r := range left {
					if err := store.Remove(r.ID); err != nil {
						t.Fatal(err)
					}
				}
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

func TestLogTail(t *testing.T) {
	l := tail{max: 8}
	if text, seq, cut, _ := l.read(); text != "" || seq != 0 || cut {
		t.Errorf("empty: %q %d %v", text, seq, cut)
	}
	for i, step := range []struct {
		write, want string
		cut         bool
	}{
		{"12345678", "12345678", false},
		{"ab", "345678ab", true},
		{"cdefghij", "cdefghij", true},
		{strings.Repeat("z", 50), "zzzzzzzz", true},
		{"ä€", "zzzä€", true},
		{"1234", "€1234", true}, // not from the middle of the ä
	} {
		n, err := l.Write([]byte(step.write))
		text, seq, cut, _ := l.read()
		if n != len(step.write) || err != nil || text != step.want || seq != int64(i+1) || cut != step.cut {
			t.Errorf("after %q: %q, seq %d, cut %v, want %q, %v", step.write, text, seq, cut, step.want, step.cut)
		}
		if cap(l.buf) > 64 {
			t.Errorf("the tail holds %d bytes", cap(l.buf))
		}
	}
	if !bytes.Equal(l.buf[len(l.buf)-4:], []byte("1234")) {
		t.Errorf("buffer %q", l.buf)
	}
}
