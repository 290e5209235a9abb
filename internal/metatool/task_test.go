package metatool

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// TestTaskWithinWait: a call whose task ends in time has the result of any call, with progress.
func TestTaskWithinWait(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &calltest.TaskServer{Modern: modern, Lasts: 25 * time.Second, Says: "42 rows"}, Options{})
		if got := h.ExecuteTask(); got != "42 rows" {
			t.Errorf("%q", got)
		}
		if n := len(h.Agent.Progress); n < 3 || !strings.Contains(h.Agent.Progress[n-1], `"progressToken":7`) || !strings.Contains(h.Agent.Progress[n-1], "step 2") {
			t.Errorf("progress: %q", h.Agent.Progress)
		}
		if h.Server.Made != 1 || h.g.state.tasks.Len() != 0 {
			t.Errorf("%d calls, %d tasks kept", h.Server.Made, h.g.state.tasks.Len())
		}
	})
}

// TestTaskCancel: an agent cancels a task by its handle, and by cancelling the call that waits.
func TestTaskCancel(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &calltest.TaskServer{Modern: modern}, Options{})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		if got := h.View(h.Session, handle, `,"selector":{"type":"cancel"}}`); !strings.Contains(got, "is cancelled") || h.Server.Cancels != 1 {
			t.Errorf("%q, %d cancellations", got, h.Server.Cancels)
		}
		if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "was cancelled") || !strings.Contains(got, "run the tool again") {
			t.Errorf("%q", got)
		}
		h = newTaskHarness(t, &calltest.TaskServer{Modern: modern}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(3 * time.Second); cancel() }()
		if _, err := h.CallTool(ctx, h.Session, ToolExecute, `{"tool_id":"`+h.ToolID+`","args":{}}`); err != context.Canceled {
			t.Errorf("%v", err)
		}
		if h.Server.Cancels != 1 || h.g.state.tasks.Len() != 0 {
			t.Errorf("%d cancellations, %d kept", h.Server.Cancels, h.g.state.tasks.Len())
		}
		h = newTaskHarness(t, &calltest.TaskServer{Modern: modern, Lasts: 2 * time.Minute, Says: "done"}, Options{})
		handle = calltest.TaskHandle(t, h.ExecuteTask())
		ctx, cancel = context.WithCancel(t.Context())
		go func() { time.Sleep(3 * time.Second); cancel() }()
		if _, err := h.CallTool(ctx, h.Session, ToolView, `{"handle":"`+handle+`"`+calltest.Head); err != context.Canceled || h.Server.Cancels != 0 {
			t.Errorf("the end of a view: %v, %d cancellations", err, h.Server.Cancels)
		}
	})
}
