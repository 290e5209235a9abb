package calltest

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
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// TaskServer is a server whose calls all become tasks. Its fields are set before the first call.
type TaskServer struct {
	Modern bool
	Lasts  time.Duration // of each task; 0 never ends
	Asks   bool          // each task asks for input first
	Says   string        // the result's text
	Fails  *jsonrpc.Error
	At     string // identifies the server; "" for a program
	Apart  bool   // each principal has a connection
	Stays  bool   // it cancels no task

	Mu       sync.Mutex // guards below
	Made     int
	ID       string
	start    time.Time
	answered chan struct{}
	Answers  string
	Cancels  int
	Gone     error // answered to everything, if set
	Seen     []string
}

func (s *TaskServer) OffersTasks() bool          { return s.Modern }
func (s *TaskServer) TellsAgentTasks() bool      { return false }
func (s *TaskServer) TasksOutliveSessions() bool { return true }
func (s *TaskServer) TasksAt() (string, bool)    { return s.At, !s.Apart }
func (s *TaskServer) Era(bool) mcp.Peer          { return s }

func (s *TaskServer) status() string {
	waits := false
	if s.Asks {
		select {
		case <-s.answered:
		default:
			waits = true
		}
	}
	switch {
	case s.Cancels > 0:
		return "cancelled"
	case waits:
		return "input_required"
	case s.Lasts == 0 || time.Since(s.start) < s.Lasts:
		return "working"
	case s.Fails != nil:
		return "failed"
	}
	return "completed"
}

func (s *TaskServer) task() string {
	return fmt.Sprintf(`"taskId":%q,"status":%q,"statusMessage":"step %d","pollInterval":1000,"pollIntervalMs":1000`, s.ID, s.status(), int(time.Since(s.start).Seconds())/10)
}

const question = `{"method":"elicitation/create","params":{"message":"Which row?"}}`

func (s *TaskServer) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Seen = append(s.Seen, method)
	if s.Gone != nil {
		return nil, s.Gone
	}
	if method != "tools/call" && rawjson.Text(rawjson.Get(params, "taskId")) != s.ID {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}
	}
	switch method {
	case "tools/call":
		s.Made++
		s.ID, s.start, s.answered = fmt.Sprintf("t%d", s.Made), time.Now(), make(chan struct{})
		if s.Modern {
			return json.RawMessage(`{"resultType":"task",` + s.task() + `}`), nil
		}
		return json.RawMessage(`{"task":{` + s.task() + `}}`), nil
	case "tasks/get":
		extra := ""
		switch status := s.status(); {
		case !s.Modern:
		case status == "input_required":
			extra = `,"inputRequests":{"q1":` + question + `}`
		case status == "completed":
			extra = `,"result":` + Text(s.Says)
		case status == "failed":
			extra = `,"error":` + string(s.Fails.Append(nil))
		}
		return json.RawMessage(`{` + s.task() + extra + `}`), nil
	case "tasks/cancel":
		if status := s.status(); s.Stays || status == "completed" || status == "failed" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Cannot cancel task: it is " + status}
		}
		s.Cancels++
		return json.RawMessage(`{` + s.task() + `}`), nil
	case "tasks/update":
		s.Answers = string(rawjson.Get(params, "inputResponses"))
		close(s.answered)
		return json.RawMessage(`{}`), nil
	case "tasks/result":
		return s.wait(ctx, back)
	}
	return nil, mcp.MethodNotFound(method)
}

// wait serves tasks/result. It is called with Mu held.
func (s *TaskServer) wait(ctx context.Context, back mcp.Handler) (json.RawMessage, error) {
	if s.status() == "input_required" {
		s.Mu.Unlock()
		answer, err := back.Serve(ctx, &mcp.Request{ID: "q", Method: "elicitation/create", Params: rawjson.Get([]byte(question), "params"), Peer: mcp.NoPeer})
		s.Mu.Lock()
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "nobody answers"}
		}
		s.Answers = string(answer)
		close(s.answered)
	}
	for {
		switch status := s.status(); {
		case s.Gone != nil:
			return nil, s.Gone
		case status == "completed":
			return rawjson.SetPath(json.RawMessage(Text(s.Says)), []byte(`{"taskId":"t1"}`), "_meta", "io.modelcontextprotocol/related-task")
		case status == "failed" || status == "cancelled":
			e := s.Fails
			if e == nil {
				e = &jsonrpc.Error{Code: -32000, Message: "cancelled"}
			}
			return nil, e
		}
		s.Mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		s.Mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *TaskServer) Notify(context.Context, string, json.RawMessage) error { return nil }

// Texts that tests of tasks share.
const (
	SlowTool      = `{"name":"slow","description":"Works long.","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`
	SlowModern    = `{"name":"slow","description":"Works long.","inputSchema":{"type":"object"}}`
	Head          = `,"selector":{"type":"head"}}`
	TasksWait     = 30 * time.Second
	CanElicit     = `{"elicitation":{}}`
	progressToken = `"_meta":{"progressToken":7}`
)

// TaskAgent answers questions and collects progress.
type TaskAgent struct {
	Mu       sync.Mutex // guards below
	Progress []string
	Asked    int
	Question string // the message of the last one
	Delay    time.Duration
}

func (a *TaskAgent) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	a.Mu.Lock()
	a.Asked++
	a.Question = rawjson.Text(rawjson.Get(params, "message"))
	a.Mu.Unlock()
	select {
	case <-time.After(a.Delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return json.RawMessage(`{"action":"accept","content":{"row":3}}`), nil
}

func (a *TaskAgent) Notify(_ context.Context, method string, params json.RawMessage) error {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if method == "notifications/progress" {
		a.Progress = append(a.Progress, string(params))
	}
	return nil
}

// TaskHandle returns the handle of the task that an answer tells.
func TaskHandle(t *testing.T, text string) string {
	t.Helper()
	i := strings.Index(text, "task_")
	if i < 0 {
		t.Fatalf("no handle in %q", text)
	}
	handle, _, _ := strings.Cut(text[i:], `"`)
	return handle
}

// Eras runs a test in each era of MCP, each in a time of its own.
func Eras(t *testing.T, f func(t *testing.T, modern bool)) {
	for _, modern := range []bool{false, true} {
		t.Run(map[bool]string{false: "2025-11-25", true: "2026-07-28"}[modern], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, modern) })
		})
	}
}

// MayHaveRun is how the error of a task without a handle ends.
const MayHaveRun = `"retryable":false,"details":{"kind":"store_unavailable","maybe_ran":true}}`
