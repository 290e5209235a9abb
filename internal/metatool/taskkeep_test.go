package metatool

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

// keptState is the State of a gateway that has just started over a store.
func keptState(t *testing.T, d store.Docs) *State {
	t.Helper()
	s := NewState()
	if err := s.Keep(t.Context(), d, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTaskOutlastsTheGateway: a handle works after a restart, for its principal, until its time is
// over. A task that has ended makes room there.
func TestTaskOutlastsTheGateway(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		docs := store.NewMemory(store.MemoryOptions{})
		server := &taskServer{at: "url", modern: modern, lasts: 70 * time.Second, says: "42 rows"}
		begin := func() *taskHarness {
			return newTaskHarness(t, server, Options{State: keptState(t, docs), Tasks: tasks.Options{Max: 1}})
		}
		handle := handleIn(t, begin().execute())
		h := begin()
		other := mcp.NewSession("o", "bob")
		defer other.Close()
		if got := h.view(other, handle, head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("another principal reads %q", got)
		}
		if got := h.g.state.tasks.Len(); got != 1 {
			t.Errorf("%d tasks count for the bound after a restart", got)
		}
		if got := h.view(h.session, handle, head); !strings.Contains(got, "still running after 60 s") {
			t.Errorf("%q", got)
		}
		for range 2 {
			if got := begin().view(h.session, handle, head); got != "42 rows" {
				t.Errorf("%q", got)
			}
		}
		second := handleIn(t, begin().execute())
		if got := begin().view(h.session, handle, head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("the task that made room: %q", got)
		}
		time.Sleep(time.Hour)
		if got := begin().view(h.session, second, head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("after its time: %q", got)
		}
	})
}

// TestTaskOfAnAbsentServer: the handle of a task waits for its server after a restart.
func TestTaskOfAnAbsentServer(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		docs := store.NewMemory(store.MemoryOptions{})
		h := newTaskHarness(t, &taskServer{at: "url", modern: modern, lasts: 50 * time.Second, says: "42 rows"}, Options{State: keptState(t, docs)})
		handle := handleIn(t, h.execute())
		late := newHarness(t, Options{State: keptState(t, docs), Tasks: tasks.Options{Wait: tasksWait}})
		l := &taskHarness{harness: late, t: t, server: h.server, client: h.client}
		if got := l.view(l.session, handle, head); !strings.Contains(got, "UPSTREAM_UNAVAILABLE") || !strings.Contains(got, `"retryable":true`) {
			t.Errorf("%q", got)
		}
		definition := slowTool
		if modern {
			definition = slowModern
		}
		late.add("work", nil, definition)
		late.others = map[string]mcp.Peer{"work": h.server}
		if got := l.view(l.session, handle, head); got != "42 rows" {
			t.Errorf("%q", got)
		}
	})
}

// TestTaskStoreFails: an agent gets no handle that is not kept, whatever the store has done; a store
// that fails now and then is asked again.
func TestTaskStoreFails(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		var faults []storetest.Fault
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Wait: time.Second, Next: func() storetest.Fault {
			if len(faults) == 0 {
				return storetest.None
			}
			next := faults[0]
			faults = faults[1:]
			return next
		}}
		begin := func() *taskHarness {
			return newTaskHarness(t, &taskServer{at: "url", modern: modern}, Options{State: keptState(t, docs)})
		}
		for _, some := range [][]storetest.Fault{
			{storetest.Drop}, {storetest.ApplyThenFail}, {storetest.ConflictFalsely}, {storetest.Delay}, {storetest.ApplyThenFail, storetest.Drop, storetest.Drop},
		} {
			h := begin()
			faults = some
			handle := handleIn(t, h.execute())
			faults = nil
			if state := keptState(t, docs); state.tasks.Len() == 0 {
				t.Errorf("%v: the handle %s is not kept", some, handle)
			}
			if got := h.view(h.session, handle, `,"selector":{"type":"cancel"}}`); !strings.Contains(got, "is cancelled") {
				t.Errorf("%v: %q", some, got)
			}
		}
		h := begin()
		kept := h.g.state.tasks.Len()
		docs.Cut(true)
		if got := h.execute(); !strings.Contains(got, mayHaveRun) || !strings.Contains(got, "cannot keep its handle") || !strings.Contains(got, "the task was cancelled") || strings.Contains(got, "task_") {
			t.Errorf("%q", got)
		}
		if h.server.cancels != 1 || h.g.state.tasks.Len() != kept {
			t.Errorf("%d cancellations, %d tasks, %d before", h.server.cancels, h.g.state.tasks.Len(), kept)
		}
	})
}

// mayHaveRun is how the error of a task without a handle ends.
const mayHaveRun = `"retryable":false,"details":{"kind":"store_unavailable","maybe_ran":true}}`

// TestTaskEndsWhileTheStoreIsSilent: an agent gets the result of a task that ends while the store is waited for, and no
// agent is told to run a task again that a server has begun.
func TestTaskEndsWhileTheStoreIsSilent(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		silent := func(server *taskServer) *taskHarness {
			docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Wait: time.Hour}
			state := keptState(t, docs)
			docs.Next = func() storetest.Fault { return storetest.Delay }
			return newTaskHarness(t, server, Options{State: state})
		}
		h := silent(&taskServer{at: "url", modern: modern, lasts: tasksWait + 2*time.Second, says: "42 rows"})
		if got := h.execute(); got != "42 rows" || h.server.made != 1 {
			t.Errorf("%q", got)
		}
		h = silent(&taskServer{at: "url", modern: modern, stays: true})
		if got := h.execute(); !strings.Contains(got, mayHaveRun) || !strings.Contains(got, "may go on") {
			t.Errorf("%q", got)
		}
		h = silent(&taskServer{at: "url", modern: modern})
		go func() {
			time.Sleep(tasksWait + time.Second)
			h.server.mu.Lock()
			defer h.server.mu.Unlock()
			h.server.gone = mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")
		}()
		if got := h.execute(); !strings.Contains(got, mayHaveRun) || !strings.Contains(got, "may go on") {
			t.Errorf("%q", got)
		}
	})
}

// TestTaskOfAnotherServer: a handle of before a restart reads no task of another principal. A program
// begins anew with the gateway, another server may have the name, and a server may count again.
func TestTaskOfAnotherServer(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"program":     {"", "", "no task has the handle"},
		"other URL":   {"a", "b", "is another one now"},
		"counts anew": {"a", "a", "no task has the handle"},
	} {
		t.Run(name, func(t *testing.T) {
			eras(t, func(t *testing.T, modern bool) {
				docs := store.NewMemory(store.MemoryOptions{})
				first := newTaskHarness(t, &taskServer{at: c.before, modern: modern, lasts: 20 * time.Minute, says: "ann's rows"}, Options{State: keptState(t, docs)})
				ann := handleIn(t, first.execute())
				if got := first.view(first.session, ann, head); !strings.Contains(got, "still running") {
					t.Errorf("before the restart: %q", got)
				}
				begin := func() *taskHarness {
					return newTaskHarness(t, &taskServer{at: c.after, modern: modern, lasts: 70 * time.Second, says: "bob's rows"}, Options{State: keptState(t, docs)})
				}
				h := begin()
				bob := mcp.NewSession("o", "bob")
				defer bob.Close()
				bob.SetVersion(mcp.V20251125)
				text, err := h.call(t.Context(), bob, ToolExecute, `{"tool_id":"`+h.tool+`","args":{}}`)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				for _, rest := range []string{head, `,"selector":{"type":"cancel"}}`} {
					if got := h.view(first.session, ann, rest); !strings.Contains(got, c.want) {
						t.Errorf("ann reads %q", got)
					}
				}
				if got := h.view(bob, handleIn(t, text), head); got != "bob's rows" {
					t.Errorf("bob reads %q", got)
				}
				if got := begin().view(first.session, ann, head); !strings.Contains(got, c.want) {
					t.Errorf("after another restart, ann reads %q", got)
				}
			})
		})
	}
}

// TestTaskIsReplacedWhileItIsAwaited: a request that waits for a task gets no result of the task that
// has its id now; equal ids of connections that are apart are no such tasks.
func TestTaskIsReplacedWhileItIsAwaited(t *testing.T) {
	for _, apart := range []bool{false, true} {
		eras(t, func(t *testing.T, modern bool) {
			h := newTaskHarness(t, &taskServer{at: "url", apart: apart, modern: modern, lasts: 40 * time.Second, says: "rows"}, Options{State: keptState(t, store.NewMemory(store.MemoryOptions{}))})
			ann := handleIn(t, h.execute())
			read := make(chan string)
			go func() { read <- h.view(h.session, ann, head) }()
			time.Sleep(time.Second)
			h.server.mu.Lock()
			h.server.made = 0 // it was restarted
			h.server.mu.Unlock()
			bob := mcp.NewSession("o", "bob")
			defer bob.Close()
			bob.SetVersion(mcp.V20251125)
			text, err := h.call(t.Context(), bob, ToolExecute, `{"tool_id":"`+h.tool+`","args":{}}`)
			if err != nil {
				t.Fatal(err)
			}
			got := <-read
			if gone := strings.Contains(got, "counts its tasks anew"); gone == apart {
				t.Errorf("apart %t: ann reads %q", apart, got)
			}
			time.Sleep(time.Minute)
			if got := h.view(bob, handleIn(t, text), head); got != "rows" {
				t.Errorf("bob reads %q", got)
			}
		})
	}
}
