package metatool

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
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
	calltest.Eras(t, func(t *testing.T, modern bool) {
		docs := store.NewMemory(store.MemoryOptions{})
		server := &calltest.TaskServer{At: "url", Modern: modern, Lasts: 70 * time.Second, Says: "42 rows"}
		begin := func() *taskHarness {
			return newTaskHarness(t, server, Options{State: keptState(t, docs), Tasks: tasks.Options{Max: 1}})
		}
		handle := calltest.TaskHandle(t, begin().ExecuteTask())
		h := begin()
		other := mcp.NewSession("o", "bob")
		defer other.Close()
		if got := h.View(other, handle, calltest.Head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("another principal reads %q", got)
		}
		if got := h.g.state.tasks.Len(); got != 1 {
			t.Errorf("%d tasks count for the bound after a restart", got)
		}
		if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "still running after 60 s") {
			t.Errorf("%q", got)
		}
		for range 2 {
			if got := begin().View(h.Session, handle, calltest.Head); got != "42 rows" {
				t.Errorf("%q", got)
			}
		}
		second := calltest.TaskHandle(t, begin().ExecuteTask())
		if got := begin().View(h.Session, handle, calltest.Head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("the task that made room: %q", got)
		}
		time.Sleep(time.Hour)
		if got := begin().View(h.Session, second, calltest.Head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("after its time: %q", got)
		}
	})
}

// TestTaskStoreFails: an agent gets no handle that is not kept, whatever the store has done; a store
// that fails now and then is asked again.
func TestTaskStoreFails(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
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
			return newTaskHarness(t, &calltest.TaskServer{At: "url", Modern: modern}, Options{State: keptState(t, docs)})
		}
		for _, some := range [][]storetest.Fault{
			{storetest.Drop}, {storetest.ApplyThenFail}, {storetest.ConflictFalsely}, {storetest.Delay}, {storetest.ApplyThenFail, storetest.Drop, storetest.Drop},
		} {
			h := begin()
			faults = some
			handle := calltest.TaskHandle(t, h.ExecuteTask())
			faults = nil
			if state := keptState(t, docs); state.tasks.Len() == 0 {
				t.Errorf("%v: the handle %s is not kept", some, handle)
			}
			if got := h.View(h.Session, handle, `,"selector":{"type":"cancel"}}`); !strings.Contains(got, "is cancelled") {
				t.Errorf("%v: %q", some, got)
			}
		}
		h := begin()
		kept := h.g.state.tasks.Len()
		docs.Cut(true)
		if got := h.ExecuteTask(); !strings.Contains(got, calltest.MayHaveRun) || !strings.Contains(got, "cannot keep its handle") || !strings.Contains(got, "the task was cancelled") || strings.Contains(got, "task_") {
			t.Errorf("%q", got)
		}
		if h.Server.Cancels != 1 || h.g.state.tasks.Len() != kept {
			t.Errorf("%d cancellations, %d tasks, %d before", h.Server.Cancels, h.g.state.tasks.Len(), kept)
		}
	})
}
