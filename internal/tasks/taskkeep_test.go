package tasks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

// TestTaskOfAnAbsentServer: the handle of a task waits for its server after a restart.
func TestTaskOfAnAbsentServer(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		docs := store.NewMemory(store.MemoryOptions{})
		h := metatooltest.NewTasks(t, &calltest.TaskServer{At: "url", Modern: modern, Lasts: 50 * time.Second, Says: "42 rows"}, metatool.Options{State: metatooltest.Kept(t, docs)})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		late := metatooltest.New(t, metatool.Options{State: metatooltest.Kept(t, docs), Tasks: tasks.Options{Wait: calltest.TasksWait}})
		l := &metatooltest.TaskHarness{Harness: late, TaskClient: late.TaskClient(t, h.Server)}
		if got := l.View(l.Session, handle, calltest.Head); !strings.Contains(got, "UPSTREAM_UNAVAILABLE") || !strings.Contains(got, `"retryable":true`) {
			t.Errorf("%q", got)
		}
		late.AttachTasks(h.Server)
		if got := l.View(l.Session, handle, calltest.Head); got != "42 rows" {
			t.Errorf("%q", got)
		}
	})
}

// TestTaskEndsWhileTheStoreIsSilent: an agent gets the result of a task that ends while the store is waited for, and no
// agent is told to run a task again that a server has begun.
func TestTaskEndsWhileTheStoreIsSilent(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		silent := func(server *calltest.TaskServer) *metatooltest.TaskHarness {
			docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Wait: time.Hour}
			state := metatooltest.Kept(t, docs)
			docs.Next = func() storetest.Fault { return storetest.Delay }
			return metatooltest.NewTasks(t, server, metatool.Options{State: state})
		}
		h := silent(&calltest.TaskServer{At: "url", Modern: modern, Lasts: calltest.TasksWait + 2*time.Second, Says: "42 rows"})
		if got := h.ExecuteTask(); got != "42 rows" || h.Server.Made != 1 {
			t.Errorf("%q", got)
		}
		h = silent(&calltest.TaskServer{At: "url", Modern: modern, Stays: true})
		if got := h.ExecuteTask(); !strings.Contains(got, calltest.MayHaveRun) || !strings.Contains(got, "may go on") {
			t.Errorf("%q", got)
		}
		h = silent(&calltest.TaskServer{At: "url", Modern: modern})
		go func() {
			time.Sleep(calltest.TasksWait + time.Second)
			h.Server.Mu.Lock()
			defer h.Server.Mu.Unlock()
			h.Server.Gone = mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")
		}()
		if got := h.ExecuteTask(); !strings.Contains(got, calltest.MayHaveRun) || !strings.Contains(got, "may go on") {
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
			calltest.Eras(t, func(t *testing.T, modern bool) {
				docs := store.NewMemory(store.MemoryOptions{})
				first := metatooltest.NewTasks(t, &calltest.TaskServer{At: c.before, Modern: modern, Lasts: 20 * time.Minute, Says: "ann's rows"}, metatool.Options{State: metatooltest.Kept(t, docs)})
				ann := calltest.TaskHandle(t, first.ExecuteTask())
				if got := first.View(first.Session, ann, calltest.Head); !strings.Contains(got, "still running") {
					t.Errorf("before the restart: %q", got)
				}
				begin := func() *metatooltest.TaskHarness {
					return metatooltest.NewTasks(t, &calltest.TaskServer{At: c.after, Modern: modern, Lasts: 70 * time.Second, Says: "bob's rows"}, metatool.Options{State: metatooltest.Kept(t, docs)})
				}
				h := begin()
				bob := mcp.NewSession("o", "bob")
				defer bob.Close()
				bob.SetVersion(mcp.V20251125)
				text, err := h.CallTool(t.Context(), bob, metatool.ToolExecute, `{"tool_id":"`+h.ToolID+`","args":{}}`)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				for _, rest := range []string{calltest.Head, `,"selector":{"type":"cancel"}}`} {
					if got := h.View(first.Session, ann, rest); !strings.Contains(got, c.want) {
						t.Errorf("ann reads %q", got)
					}
				}
				if got := h.View(bob, calltest.TaskHandle(t, text), calltest.Head); got != "bob's rows" {
					t.Errorf("bob reads %q", got)
				}
				if got := begin().View(first.Session, ann, calltest.Head); !strings.Contains(got, c.want) {
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
		calltest.Eras(t, func(t *testing.T, modern bool) {
			h := metatooltest.NewTasks(t, &calltest.TaskServer{At: "url", Apart: apart, Modern: modern, Lasts: 40 * time.Second, Says: "rows"}, metatool.Options{State: metatooltest.Kept(t, store.NewMemory(store.MemoryOptions{}))})
			ann := calltest.TaskHandle(t, h.ExecuteTask())
			read := make(chan string)
			go func() { read <- h.View(h.Session, ann, calltest.Head) }()
			time.Sleep(time.Second)
			h.Server.Mu.Lock()
			h.Server.Made = 0 // it was restarted
			h.Server.Mu.Unlock()
			bob := mcp.NewSession("o", "bob")
			defer bob.Close()
			bob.SetVersion(mcp.V20251125)
			text, err := h.CallTool(t.Context(), bob, metatool.ToolExecute, `{"tool_id":"`+h.ToolID+`","args":{}}`)
			if err != nil {
				t.Fatal(err)
			}
			got := <-read
			if gone := strings.Contains(got, "counts its tasks anew"); gone == apart {
				t.Errorf("apart %t: ann reads %q", apart, got)
			}
			time.Sleep(time.Minute)
			if got := h.View(bob, calltest.TaskHandle(t, text), calltest.Head); got != "rows" {
				t.Errorf("bob reads %q", got)
			}
		})
	}
}
