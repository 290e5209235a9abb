package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// agentServer is an agent server that knows no tasks of MCP. It answers calls with a taskId.
type agentServer struct {
	lasts   time.Duration
	fails   bool
	queued  bool // the task does not start
	foreign bool // the taskId in its results is no task of its own

	mu      sync.Mutex // guards below
	start   time.Time
	cancels int
	down    error
}

func (s *agentServer) OffersTasks() bool          { return false }
func (s *agentServer) TellsAgentTasks() bool      { return true }
func (s *agentServer) TasksOutliveSessions() bool { return true }
func (s *agentServer) TasksAt() (string, bool)    { return "agent", true }
func (s *agentServer) Era(modern bool) mcp.Peer {
	if modern {
		panic("a task of an agent server has no modern era")
	}
	return s
}

func (s *agentServer) Notify(context.Context, string, json.RawMessage) error { return nil }

func (s *agentServer) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	offer, _ := mcptask.OfferOf(ctx)
	switch {
	case method == "tools/call":
		s.start = time.Now()
		return json.RawMessage(`{"content":[{"type":"text","text":"made j1"}],"taskId":"j1"}`), nil
	case s.down != nil:
		return nil, s.down
	case s.foreign, !offer.Agent, rawjson.Text(rawjson.Get(params, "taskId")) != "j1":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no such task"}
	case method == mcptask.MethodCancel:
		s.cancels++
	case method != mcptask.MethodGet:
		return nil, mcp.MethodNotFound(method)
	}
	state := `"running","logTail":"began\nstep 3 of sk-ant-api03-` + strings.Repeat("a", 93) + `AA\n"`
	switch {
	case s.cancels > 0:
		state = `"cancelled"`
	case s.queued:
		state = `"pending"`
	case time.Since(s.start) < s.lasts:
	case s.fails && s.lasts > time.Minute:
		state = `"failed","error":"interrupted: the agent is unavailable"`
	case s.fails:
		state = `"failed","error":"the press is jammed"`
	default:
		state = `"completed","result":{"content":[{"type":"text","text":"42 rows"}]}`
	}
	return fmt.Appendf(nil, `{"task":{"id":"j1","status":%s}}`, state), nil
}

func newAgentHarness(t *testing.T, s *agentServer) *metatooltest.TaskHarness {
	h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: true}, metatool.Options{})
	h.Others["work"] = s
	return h
}

// TestAgentTaskWithinWait: the gateway waits for the task that an agent server names in an ordinary
// result.
func TestAgentTaskWithinWait(t *testing.T) {
	for _, lasts := range []time.Duration{0, 25 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := newAgentHarness(t, &agentServer{lasts: lasts})
			if got := h.ExecuteTask(); got != "42 rows" {
				t.Errorf("%s: %q", lasts, got)
			}
			if n := len(h.Agent.Progress); lasts > 0 && (n == 0 || !strings.Contains(h.Agent.Progress[n-1], "step 3") || strings.Contains(h.Agent.Progress[n-1], "aaaa")) {
				t.Errorf("progress: %q", h.Agent.Progress)
			}
		})
	}
}

// TestAgentTaskHandle: a longer one gives a handle, which ends in the result or is cancelled.
func TestAgentTaskHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &agentServer{lasts: 50 * time.Second}
		h := newAgentHarness(t, s)
		first := h.ExecuteTask()
		if !strings.Contains(first, "still running after 30 s: step 3 of") || strings.Contains(first, "aaaa") {
			t.Errorf("%q", first)
		}
		if got := h.View(h.Session, calltest.TaskHandle(t, first), calltest.Head); got != "42 rows" {
			t.Errorf("%q", got)
		}
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		if got := h.View(h.Session, handle, `,"selector":{"type":"cancel"}}`); !strings.Contains(got, "is cancelled") || s.cancels != 1 {
			t.Errorf("%q, cancelled %d times", got, s.cancels)
		}
	})
}

func TestAgentTaskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAgentHarness(t, &agentServer{lasts: time.Second, fails: true})
		if got := h.ExecuteTask(); !strings.Contains(got, "the press is jammed") || !strings.Contains(got, "UPSTREAM_ERROR") {
			t.Errorf("%q", got)
		}
	})
}

// TestAgentTaskQueued: a task that waits in the queue is not told as one that runs.
func TestAgentTaskQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAgentHarness(t, &agentServer{queued: true})
		if got := h.ExecuteTask(); !strings.Contains(got, "is not started yet and waits in the queue after 30 s\n") {
			t.Errorf("%q", got)
		}
	})
}

// TestAgentTaskFailsForGood: the handle of a task that has failed fails again, whatever its error is.
func TestAgentTaskFailsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAgentHarness(t, &agentServer{lasts: 70 * time.Second, fails: true})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		h.View(h.Session, handle, calltest.Head)
		for range 2 {
			got := h.View(h.Session, handle, calltest.Head)
			if !strings.Contains(got, "UPSTREAM_UNAVAILABLE") || !strings.Contains(got, `"retryable":false`) || !strings.Contains(got, "again only after you have looked at what it did") || !strings.Contains(got, "interrupted") {
				t.Errorf("%q", got)
			}
		}
	})
}

// TestAgentTaskIsNone: a taskId that the server does not know as a task is part of the result.
func TestAgentTaskIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAgentHarness(t, &agentServer{foreign: true})
		if got := h.ExecuteTask(); got != "made j1" {
			t.Errorf("%q", got)
		}
	})
}

// TestAgentTaskWhileDown: a server that cannot be asked keeps its task.
func TestAgentTaskWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &agentServer{lasts: time.Second, down: mcp.Errorf(mcp.KindUpstreamUnavailable, "it restarts")}
		h := newAgentHarness(t, s)
		first := h.ExecuteTask()
		if !strings.Contains(first, "it restarts") {
			t.Errorf("%q", first)
		}
		s.mu.Lock()
		s.down = nil
		s.mu.Unlock()
		if got := h.View(h.Session, calltest.TaskHandle(t, first), calltest.Head); got != "42 rows" {
			t.Errorf("%q", got)
		}
	})
}
