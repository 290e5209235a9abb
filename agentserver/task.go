package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// One task, in three forms:
//
//	queue       /getTaskStatus   2025-11-25 tasks/*      2026-07-28 extension
//	pending     pending          working                 working
//	running     running          working                 working
//	completed   completed        completed               completed, result
//	failed      failed           failed                  completed with isError, where the tool ran and failed
//	                                                     failed with error, otherwise
//	cancelled   cancelled        cancelled               cancelled

const (
	// tasksExtension is the extension of 2026-07-28.
	tasksExtension = "io.modelcontextprotocol/tasks"
	// relatedTask is the key in a result's _meta that names its task (2025-11-25).
	relatedTask = "io.modelcontextprotocol/related-task"
	// pollInterval is how often a client should poll.
	pollInterval = time.Second
	// taskPage is the size of a page of tasks/list.
	taskPage = 100
)

// hasLegacyTasks reports whether the version of r has tasks in its core.
func hasLegacyTasks(r *mcp.Request) bool { return r.Version == mcp.V20251125 }

// hasTasksExtension reports whether the sender of a modern request understands
// tasks.
func hasTasksExtension(r *mcp.Request) bool {
	return rawjson.IsObject(rawjson.GetPath(r.ClientCapabilities(), "extensions", tasksExtension))
}

// callAsTask answers a call that becomes a task; ok is false for any other. The server makes tasks
// of async tools only.
func (s *Server) callAsTask(r *mcp.Request, t *offered, task []byte, spec queue.Spec) (answer json.RawMessage, ok bool, err error) {
	augmented := hasLegacyTasks(r) && rawjson.IsObject(task)
	if !t.Async {
		if augmented {
			return nil, true, mcp.Errorf(mcp.KindMethodNotFound, "tool %q does not run as a task: call it without params.task", t.Name)
		}
		return nil, false, nil
	}
	if augmented {
		var ttl int64
		if raw := rawjson.Get(task, "ttl"); raw != nil && json.Unmarshal(raw, &ttl) == nil && ttl > 0 {
			spec.Retain = time.Duration(min(ttl, int64(365*24*time.Hour/time.Millisecond))) * time.Millisecond
		}
	}
	made, err := s.queue.Submit(spec)
	if err != nil {
		return nil, true, s.queueError(fmt.Sprintf("tool %q", t.Name), err)
	}
	switch {
	case augmented:
		answer, err = marshal(map[string]any{"task": legacyTask(made)})
	case r.Modern() && hasTasksExtension(r):
		answer, err = marshal(struct {
			Type string `json:"resultType"`
			modernTask
		}{"task", toModern(made)})
	default:
		answer, err = s.taskMade(r, made)
	}
	return answer, true, err
}

// taskMade returns the answer for a caller that does not know MCP tasks: an ordinary result that
// says where to find the task.
func (s *Server) taskMade(r *mcp.Request, t queue.Task) (json.RawMessage, error) {
	about := map[string]any{
		"agent": s.name, "taskId": t.ID, "toolName": t.Name, "status": t.State,
		"createdAt": stamp(t.Created), "updatedAt": stamp(t.Updated),
	}
	text, err := marshal(about)
	if err != nil {
		return nil, err
	}
	result := map[string]any{
		"content":           []any{map[string]string{"type": "text", "text": string(text)}},
		"structuredContent": about,
		"_meta":             map[string]string{"taskId": t.ID},
	}
	if !r.Modern() { // there it would say that the result is a task of MCP
		result["taskId"], result["metadata"] = t.ID, about
	}
	return marshal(result)
}

// stamp formats a time for clients.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// mcpStatus returns the name of a state in both eras.
func mcpStatus(s queue.State) string {
	if !s.Final() {
		return "working"
	}
	return string(s)
}

// maxStatusMessage bounds the message of a running task, in characters.
const maxStatusMessage = 200

// queued is the message of a task that has not started. Gateways know it as mcptask.Queued.
const queued = "waits in the queue"

// statusMessage returns the error of a task that has ended, that a task waits, or the last line of a
// running task's log. The log of a command has no secrets: see redactingWriter.
func statusMessage(t queue.Task) string {
	switch t.State {
	case queue.Running:
	case queue.Pending:
		return queued
	default:
		return t.Error
	}
	log := strings.TrimSpace(t.LogTail)
	return text.Line(log[strings.LastIndexByte(log, '\n')+1:], maxStatusMessage)
}

// legacy is a task of 2025-11-25.
type legacy struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTL           int64  `json:"ttl"`
	PollInterval  int64  `json:"pollInterval"`
}

func legacyTask(t queue.Task) legacy {
	return legacy{t.ID, mcpStatus(t.State), statusMessage(t), stamp(t.Created), stamp(t.Updated), t.Retain.Milliseconds(), pollInterval.Milliseconds()}
}

// modernTask is a task of the extension.
type modernTask struct {
	TaskID         string          `json:"taskId"`
	Status         string          `json:"status"`
	StatusMessage  string          `json:"statusMessage,omitempty"`
	CreatedAt      string          `json:"createdAt"`
	LastUpdatedAt  string          `json:"lastUpdatedAt"`
	TTLMs          int64           `json:"ttlMs"`
	PollIntervalMs int64           `json:"pollIntervalMs"`
	Result         json.RawMessage `json:"result,omitempty"`
	Error          json.RawMessage `json:"error,omitempty"`
}

func toModern(t queue.Task) modernTask {
	m := modernTask{
		TaskID: t.ID, Status: mcpStatus(t.State), StatusMessage: statusMessage(t), CreatedAt: stamp(t.Created), LastUpdatedAt: stamp(t.Updated),
		TTLMs: t.Retain.Milliseconds(), PollIntervalMs: pollInterval.Milliseconds(),
	}
	switch {
	case t.State == queue.Completed, t.State == queue.Failed && t.Result != nil:
		m.Status, m.Result = "completed", mcp.Complete(t.Result, nil)
	case t.State == queue.Failed:
		m.Error = taskError(t, mcp.V20260728).Append(nil)
	}
	return m
}

// taskError returns the error of a task that ended without a result.
func taskError(t queue.Task, version string) *jsonrpc.Error {
	kind := mcp.KindToolExecution
	switch t.Reason {
	case queue.ReasonTimeout:
		kind = mcp.KindTimeout
	case queue.ReasonInterrupted:
		kind = mcp.KindShuttingDown
	case queue.ReasonCancelled:
		kind = mcp.KindCancelled
	}
	return mcp.WireError(mcp.Errorf(kind, "tool %q: %s", t.Name, t.Error), version)
}

// taskOf reads params.taskId and checks that the sender of r may ask for tasks.
func taskOf(r *mcp.Request) (id string, err error) {
	if r.Modern() {
		if !hasTasksExtension(r) {
			e := mcp.Errorf(mcp.KindMissingCapability, "%s needs the client capability extensions[%q]", r.Method, tasksExtension)
			e.Data, err = json.Marshal(map[string]any{"kind": e.Kind.String(), "requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: struct{}{}}}})
			return "", errors.Join(e, err)
		}
	}
	if id = rawjson.Text(rawjson.Get(r.Params, "taskId")); id == "" {
		return "", mcp.Errorf(mcp.KindInvalidParams, "%s needs params.taskId", r.Method)
	}
	return id, nil
}

// noTask returns the error for a task that does not exist, belongs to another principal, or cannot be
// asked for now.
func noTask(id string, err error) error {
	if errors.Is(err, queue.ErrStore) {
		return &mcp.Error{Kind: mcp.KindStoreUnavailable, Message: fmt.Sprintf("the store with the task %s does not answer; try again", clip(id)), Err: err}
	}
	e := mcp.Errorf(mcp.KindInvalidParams, "no such task: %s", clip(id))
	e.Data, _ = json.Marshal(map[string]string{"kind": mcp.KindNotFound.String(), "taskId": clip(id)})
	return e
}

// tasks serves the methods tasks/* over the queue of tool calls.
type tasks struct{ queue *queue.Queue }

// methods returns the handlers of tasks.
func (q tasks) methods() map[string]mcp.Handler {
	return map[string]mcp.Handler{
		"tasks/get":    mcp.HandlerFunc(q.get),
		"tasks/result": mcp.HandlerFunc(q.result),
		"tasks/list":   mcp.HandlerFunc(q.list),
		"tasks/cancel": mcp.HandlerFunc(q.cancel),
		"tasks/update": mcp.HandlerFunc(q.update),
	}
}

// get serves tasks/get.
func (q tasks) get(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	id, err := taskOf(r)
	if err != nil {
		return nil, err
	}
	t, err := q.queue.Get(r.Session.Principal(), id)
	if err != nil {
		return nil, noTask(id, err)
	}
	if r.Modern() {
		return marshal(toModern(t))
	}
	return marshal(legacyTask(t))
}

// result serves tasks/result (2025-11-25): it waits for the end.
func (q tasks) result(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	id, err := taskOf(r)
	if err != nil {
		return nil, err
	}
	t, err := q.queue.Wait(ctx, r.Session.Principal(), id)
	switch {
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrStore):
		return nil, noTask(id, err)
	case err != nil:
		return nil, err
	case t.Result == nil:
		return nil, taskError(t, r.Version)
	}
	return rawjson.SetPath(t.Result, rawjson.Object("taskId", rawjson.Quote(id)), "_meta", relatedTask)
}

// list serves tasks/list (2025-11-25): the caller's own.
func (q tasks) list(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	tasks, more, err := q.queue.List(r.Session.Principal(), rawjson.Text(rawjson.Get(r.Params, "cursor")), taskPage)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "no such cursor: its task is gone; begin anew")
	}
	out := struct {
		Tasks []legacy `json:"tasks"`
		Next  string   `json:"nextCursor,omitempty"`
	}{Tasks: []legacy{}}
	for _, t := range tasks {
		out.Tasks = append(out.Tasks, legacyTask(t))
	}
	if more {
		out.Next = tasks[len(tasks)-1].ID
	}
	return marshal(out)
}

// cancel serves tasks/cancel. In the modern era its answer is empty, also
// for a task that is over; in 2025-11-25 such a task is an error.
func (q tasks) cancel(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	id, err := taskOf(r)
	if err != nil {
		return nil, err
	}
	owner := r.Session.Principal()
	if !r.Modern() {
		if t, err := q.queue.Get(owner, id); err == nil && t.State.Final() {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "task %s cannot be cancelled: it is %s", id, t.State)
		}
	}
	t, err := q.queue.Cancel(owner, id)
	if err != nil {
		return nil, noTask(id, err)
	}
	if r.Modern() {
		return json.RawMessage("{}"), nil
	}
	return marshal(legacyTask(t))
}

// update serves tasks/update (2026-07-28). Tasks of agents never ask for input, so it accepts none.
func (q tasks) update(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	if !r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	id, err := taskOf(r)
	if err != nil {
		return nil, err
	}
	if _, err := q.queue.Get(r.Session.Principal(), id); err != nil {
		return nil, noTask(id, err)
	}
	return json.RawMessage("{}"), nil
}
