package passthrough

import (
	"container/list"
	"encoding/json"
	"log/slog"
	"net/url"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

// TestTaskOwnersKept: the next process knows whose the tasks of a server with a url are, by the newest
// call, and nothing of those of another server. A store that does not answer is no answer.
func TestTaskOwnersKept(t *testing.T) {
	docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
	process := func(at string, runs bool) *taskOwners {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		return &taskOwners{docs: &taskDocs{docs: docs, log: slog.New(slog.DiscardHandler), name: "s", target: func() (Target, bool) { return Target{URL: u, Process: runs}, true }}}
	}
	const at = "http://127.0.0.1:1/mcp"
	first := process(at, false)
	first.made(t.Context(), "1", "ann", "slow")
	first.made(t.Context(), "2", "ann", "slow")
	process(at, false).made(t.Context(), "2", "bob", "other") // the server counts anew
	process(at, true).made(t.Context(), "3", "ann", "slow")   // ends with weir
	for _, c := range []struct {
		at, principal, id string
		mine              bool
	}{
		{at, "ann", "1", true}, {at, "bob", "1", false}, {at, "ann", "2", false}, {at, "bob", "2", true},
		{at, "ann", "3", false}, {at + "2", "ann", "1", false}, {at, "ann", "", false},
	} {
		next := process(c.at, false)
		if mine, err := next.owns(t.Context(), c.principal, c.id); mine != c.mine || err != nil {
			t.Errorf("%+v: %t, %v", c, mine, err)
		}
	}
	next := process(at, false)
	next.named(t.Context(), "1", "bob", "other")
	if tool := next.tool(t.Context(), "ann", "1"); tool != "slow" {
		t.Errorf("a name takes the task of its owner: %q", tool)
	}
	docs.Cut(true)
	if mine, err := process(at, false).owns(t.Context(), "ann", "1"); mine || err == nil {
		t.Errorf("without the store: %t, %v", mine, err)
	} else if kind, _ := mcp.KindOf(err); kind != mcp.KindStoreUnavailable {
		t.Errorf("%v", err)
	}
	if mine, err := next.owns(t.Context(), "ann", "1"); !mine || err != nil {
		t.Errorf("what is in memory needs the store: %v", err)
	}
	defer next.docs.close()
	next.made(t.Context(), "5", "ann", "slow")
	if mine, err := next.owns(t.Context(), "ann", "5"); !mine || err != nil {
		t.Errorf("a task that could not be kept: %t, %v", mine, err)
	}
}

// TestTaskShares: the documents of one principal are bounded. Beyond that no other principal gets its
// tasks: an older task with the id loses its owner, and a task without one belongs to no principal.
func TestTaskShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		process := func() *taskOwners {
			u := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
			return &taskOwners{docs: &taskDocs{docs: docs, log: slog.New(slog.DiscardHandler), name: "s", target: func() (Target, bool) { return Target{URL: u}, true }}}
		}
		count := func() (n int) {
			for _, err := range docs.List(t.Context(), taskPrefix) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		owns := func(o *taskOwners, principal, id string, want bool) {
			t.Helper()
			if mine, err := o.owns(t.Context(), principal, id); mine != want || err != nil {
				t.Errorf("%s has task %s: %t, %v", principal, id, mine, err)
			}
		}
		first := process()
		first.made(t.Context(), "old", "bob", "slow")
		for i := range maxKeptTasks + 10 {
			first.made(t.Context(), strconv.Itoa(i), "ann", "slow")
		}
		if n := count(); n != maxKeptTasks+1 {
			t.Errorf("%d documents", n)
		}
		last := strconv.Itoa(maxKeptTasks + 9)
		first.made(t.Context(), "old", "ann", "slow") // the server counts anew
		first.made(t.Context(), "bobs", "bob", "slow")
		owns(first, "ann", last, true)
		next := process()
		owns(next, "ann", "0", true)
		owns(next, "ann", last, false)
		owns(next, "ann", "old", true)
		owns(next, "bob", "old", false)
		owns(next, "bob", "bobs", true)
		time.Sleep(taskTTL)
		first.made(t.Context(), "later", "ann", "slow")
		owns(process(), "ann", "later", true)
	})
}

// TestTaskOwnerLate: the owner of a task that the store could not keep is written later, over the
// owner of an older task with the id, which never has the new one.
func TestTaskOwnerLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		process := func() *taskOwners {
			u := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
			return &taskOwners{docs: &taskDocs{docs: docs, log: slog.New(slog.DiscardHandler), name: "s", target: func() (Target, bool) { return Target{URL: u}, true }}}
		}
		owns := func(when string, o *taskOwners, id, owner string) {
			t.Helper()
			for _, principal := range []string{"ann", "bob"} {
				if mine, err := o.owns(t.Context(), principal, id); mine != (principal == owner) || err != nil {
					t.Errorf("%s: %s has task %s: %t, %v", when, principal, id, mine, err)
				}
			}
		}
		first := process()
		first.made(t.Context(), "1", "ann", "slow")
		first.made(t.Context(), "2", "ann", "slow")
		docs.Cut(true)
		first.made(t.Context(), "1", "bob", "slow") // the server counts anew
		docs.Cut(false)
		first.byID, first.used = nil, list.List{} // newer tasks have taken the room
		owns("before the store is asked again", first, "1", "bob")
		time.Sleep(2 * lateWait)
		owns("after a restart", process(), "1", "bob")
		docs.Cut(true)
		first.made(t.Context(), "2", "bob", "slow")
		docs.Cut(false)
		first.docs.close()
		owns("after an orderly end", process(), "2", "bob")
	})
}

// TestTaskListWithoutStore: a list is refused while the store does not say whose the tasks are. The
// store is asked once about a task.
func TestTaskListWithoutStore(t *testing.T) {
	asked := 0
	docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault { asked++; return storetest.None }}
	u := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	p := &passthrough{name: "s"}
	p.tasks.docs = &taskDocs{docs: docs, log: slog.New(slog.DiscardHandler), name: "s", target: func() (Target, bool) { return Target{URL: u}, true }}
	p.tasks.made(t.Context(), "1", "ann", "slow")
	p.tasks.byID, p.tasks.used, asked = nil, list.List{}, 0
	listed := func() (json.RawMessage, error) {
		return p.ownTasks(t.Context(), "ann", &mcp.Request{Method: "tasks/list"}, json.RawMessage(`{"tasks":[{"taskId":"x"},{"taskId":"1"},{"taskId":"x"}]}`))
	}
	docs.Cut(true)
	_, err := listed()
	if kind, _ := mcp.KindOf(err); err == nil || kind != mcp.KindStoreUnavailable || asked != 1 {
		t.Errorf("without the store: %v, asked %d times", err, asked)
	}
	docs.Cut(false)
	asked = 0
	if got, err := listed(); string(got) != `{"tasks":[{"taskId":"1"}]}` || err != nil || asked != 2 {
		t.Errorf("%s, %v, asked %d times", got, err, asked)
	}
}
