package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
)

// places are the stores of a queue of one process: open is called again, for the same place, to see what a
// restart finds.
func places(t *testing.T, test func(t *testing.T, open func() (store.Docs, func()))) {
	t.Run("memory", func(t *testing.T) {
		m := OpenMemory()
		test(t, func() (store.Docs, func()) { return m, func() {} })
	})
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		test(t, func() (store.Docs, func()) {
			s, err := OpenFile(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return s, s.Close
		})
	})
	t.Run("NATS", func(t *testing.T) {
		at := natstest.Start(t, server.Options{})
		test(t, func() (store.Docs, func()) {
			docs, _, err := natsstore.Open(t.Context(), at.Conn(), natsstore.Options{Bucket: "tasks", MaxBytes: 32 << 20})
			if err != nil {
				t.Fatal(err)
			}
			return docs, docs.Close
		})
	})
}

// records returns the tasks of a store.
func records(t *testing.T, docs store.Docs) (all []record) {
	t.Helper()
	for doc, err := range docs.List(t.Context(), "t."+own+".") {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := read(doc)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec.record)
	}
	return all
}

// save writes a task into a store.
func save(t *testing.T, docs store.Docs, d document) {
	t.Helper()
	value, ttl, err := d.encode()
	if err == nil {
		_, err = docs.Set(t.Context(), "t."+own+"."+d.ID, value, 0, ttl)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openQueue opens a queue that the test closes.
func openQueue(t *testing.T, o Options) *Queue {
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

// newQueue is openQueue with a store of its own.
func newQueue(t *testing.T, o PlaceOptions) *Queue {
	t.Helper()
	return openQueue(t, Options{PlaceOptions: o, Docs: OpenMemory()})
}

// echo returns the payload.
func echo(_ context.Context, j *Job) (json.RawMessage, error) { return j.Payload, nil }

// TestQueueContract: what a queue of one process promises over any store.
func TestQueueContract(t *testing.T) {
	places(t, func(t *testing.T, open func() (store.Docs, func())) {
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
		docs, end := open()
		q := openQueue(t, Options{PlaceOptions: PlaceOptions{Run: run}, Docs: docs, Close: end})
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
		docs, end = open()
		q = openQueue(t, Options{PlaceOptions: PlaceOptions{Run: run}, Docs: docs, Close: end})
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

// TestRetention: ended tasks are bounded in number and bytes, also in the store.
func TestRetention(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		payload int
		kept    int
	}{
		{"count", Options{RetainCount: 3}, 10, 3},
		{"bytes", Options{RetainBytes: 3 * 1100}, 512, 3},
		{"one larger than the bound", Options{RetainBytes: 100}, 512, 1},
		{"no bound", Options{RetainBytes: -1, RetainCount: -1}, 10, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			places(t, func(t *testing.T, open func() (store.Docs, func())) {
				c.o.Run = echo
				c.o.Docs, c.o.Close = open()
				q := openQueue(t, c.o)
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
				docs, end := open()
				defer end()
				if left := records(t, docs); len(left) != c.kept {
					t.Errorf("the store kept %d", len(left))
				}
			})
		})
	}
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
