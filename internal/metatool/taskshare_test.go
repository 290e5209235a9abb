package metatool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

// sharedState is the State of a node of a cluster.
func sharedState(d store.Docs, inc string) *State {
	s := NewState()
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
	eras(t, func(t *testing.T, modern bool) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		server := &taskServer{at: "url", modern: modern, lasts: 200 * time.Second, says: "42 rows"}
		at := func(inc string) *taskHarness {
			return newTaskHarness(t, server, Options{State: sharedState(docs, inc)})
		}
		first, second := at("aaaaaa"), at("bbbbbb")
		handle := handleIn(t, first.execute())
		other := mcp.NewSession("o", "bob")
		defer other.Close()
		if got := second.view(other, handle, head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("another principal reads %q", got)
		}
		if got := second.view(second.session, handle, head); !strings.Contains(got, "still running") {
			t.Errorf("%q", got)
		}
		docs.Cut(true)
		if got := second.view(second.session, handle, head); !strings.Contains(got, "UPSTREAM_UNAVAILABLE") || !strings.Contains(got, "store") {
			t.Errorf("without the store: %q", got)
		}
		docs.Cut(false)
		if got := at("cccccc").view(second.session, handle, head); !strings.Contains(got, "still running") {
			t.Errorf("at a node that has just started: %q", got)
		}
		third := at("dddddd")
		server.mu.Lock()
		server.made = 0 // the server begins anew, and counts its tasks again
		server.mu.Unlock()
		third.session = other
		if got := third.execute(); !strings.Contains(got, "still running") {
			t.Fatalf("%q", got)
		}
		for i, h := range []*taskHarness{first, second} {
			if got := h.view(h.session, handle, head); !strings.Contains(got, "no task has the handle") && !strings.Contains(got, "counts its tasks anew") {
				t.Errorf("node %d reads the task of another principal: %q", i, got)
			}
		}
	})
}
