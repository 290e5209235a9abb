package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/agentclient"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
)

const (
	// taskPoll is the least time between two requests for a task.
	taskPoll = 500 * time.Millisecond
	// taskCancel bounds the cancellation of a task when the command ends.
	taskCancel = 3 * time.Second
)

// selectCancel is the selector of tool_view that cancels a task.
var selectCancel = json.RawMessage(`{"type":"cancel"}`)

// task returns the handle of the task that a call became and that still runs, otherwise "".
func (r *toolResult) task() string {
	var handle string
	if json.Unmarshal(r.Meta[result.MetaTask], &handle) != nil {
		return ""
	}
	return handle
}

// awaitResult returns the result of a call. If the call became a task, it waits for the task's end;
// if ctx ends before, it cancels the task.
func (c *client) awaitResult(a *process, ctx context.Context, r *toolResult, format string, tell func(progress)) (*toolResult, error) {
	for handle := r.task(); handle != ""; handle = r.task() {
		began := time.Now()
		next, err := c.ask(ctx, metatool.ToolView, viewArgs{handle, json.RawMessage(`{"type":"head"}`)}, format, tell)
		switch {
		case ctx.Err() != nil:
			cancelling, stop := context.WithTimeout(context.WithoutCancel(ctx), taskCancel)
			defer stop()
			if _, failed := c.ask(cancelling, metatool.ToolView, viewArgs{handle, selectCancel}, "text", nil); failed != nil {
				a.note("The task %s was not cancelled: %v", handle, failed)
			}
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
		r = next
		select { // the gateway itself waits, unless tasks.wait is short
		case <-ctx.Done():
		case <-time.After(taskPoll - time.Since(began)):
		}
	}
	return r, nil
}

// taskOf returns the id of the task that an async tool of an agent server started.
func taskOf(raw json.RawMessage) string {
	var r struct {
		TaskID string `json:"taskId"`
		Meta   struct {
			TaskID string `json:"taskId"`
		} `json:"_meta"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return ""
	}
	if r.TaskID != "" {
		return r.TaskID
	}
	return r.Meta.TaskID
}

// awaitTask waits for a task of an agent server and returns its result. If ctx ends before, it
// cancels the task.
func awaitTask(a *process, ctx context.Context, c *agentclient.Client, agent, id string) (json.RawMessage, error) {
	task, err := c.WaitTask(ctx, agent, id, taskPoll)
	switch {
	case ctx.Err() != nil:
		cancelling, stop := context.WithTimeout(context.WithoutCancel(ctx), taskCancel)
		defer stop()
		if _, failed := c.CancelTask(cancelling, agent, id); failed != nil {
			a.note("The task %s was not cancelled: %v", id, failed)
		}
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case len(task.Result) > 0 && string(task.Result) != "null":
		return task.Result, nil
	}
	return nil, failf(exitTool, "task %s of agent %q was %s: %s", id, agent, task.Status, task.Error)
}
