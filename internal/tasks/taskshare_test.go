package tasks_test

import (
	"context"
	"encoding/json"
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

// sharedState is the State of a node of a cluster.
func sharedState(d store.Docs, inc string) *metatool.State {
	s := metatool.NewState()
	s.Share(d, func() int { return 2 }, &tasks.Nodes{
		Inc: func() string { return inc },
		Ask: func(context.Context, string, string, tasks.Question) (json.RawMessage, error) {
			return nil, tasks.ErrNodeGone
		},
	})
	return s
}

// TestTaskAtOtherNodes: a handle of a task at a server with a URL works at each node, for its principal, also
// after its node is gone. When the server gives its id to a task of another principal, it works nowhere.
func TestTaskAtOtherNodes(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		server := &calltest.TaskServer{At: "url", Modern: modern, Lasts: 200 * time.Second, Says: "42 rows"}
		at := func(inc string) *metatooltest.TaskHarness {
			return metatooltest.NewTasks(t, server, metatool.Options{State: sharedState(docs, inc)})
		}
		first, second := at("aaaaaa"), at("bbbbbb")
		handle := calltest.TaskHandle(t, first.ExecuteTask())
		other := mcp.NewSession("o", "bob")
		defer other.Close()
		if got := second.View(other, handle, calltest.Head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("another principal reads %q", got)
		}
		if got := second.View(second.Session, handle, calltest.Head); !strings.Contains(got, "still running") {
			t.Errorf("%q", got)
		}
		docs.Cut(true)
		if got := second.View(second.Session, handle, calltest.Head); !strings.Contains(got, "UPSTREAM_UNAVAILABLE") || !strings.Contains(got, "store") {
			t.Errorf("without the store: %q", got)
		}
		docs.Cut(false)
		if got := at("cccccc").View(second.Session, handle, calltest.Head); !strings.Contains(got, "still running") {
			t.Errorf("at a node that has just started: %q", got)
		}
		third := at("dddddd")
		server.Mu.Lock()
		server.Made = 0 // the server begins anew, and counts its tasks again
		server.Mu.Unlock()
		third.Session = other
		if got := third.ExecuteTask(); !strings.Contains(got, "still running") {
			t.Fatalf("%q", got)
		}
		for i, h := range []*metatooltest.TaskHarness{first, second} {
			if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "no task has the handle") && !strings.Contains(got, "counts its tasks anew") {
				t.Errorf("node %d reads the task of another principal: %q", i, got)
			}
		}
	})
}
