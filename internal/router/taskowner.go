package router

import (
	"container/list"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/mcptask"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// maxTasks bounds the tasks with a known owner, per upstream. The least recently requested one is
// forgotten first and then belongs to no principal.
const maxTasks = 10_000

// taskOwners records which principal has made which task of an upstream, and with which tool.
// Principals share the connection to the upstream, which takes them for one client that may read
// all tasks.
type taskOwners struct {
	mu   sync.Mutex // guards below
	byID map[string]*list.Element
	used list.List // of taskOwner, the latest in front
}

type taskOwner struct{ id, principal, tool string }

// maxTaskTool bounds the name of a task's tool. A longer one is forgotten.
const maxTaskTool = 512

// made records a task that a call has made. An older task with the id is forgotten: the server has
// begun anew and counts its tasks again.
func (o *taskOwners) made(id, principal, tool string) { o.record(id, principal, tool, true) }

// named records a task that a call has named, unless it is known: it may be an older one.
func (o *taskOwners) named(id, principal, tool string) { o.record(id, principal, tool, false) }

func (o *taskOwners) record(id, principal, tool string, anew bool) {
	if id == "" || len(id) > maxTaskID {
		return
	}
	if len(tool) > maxTaskTool {
		tool = ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[string]*list.Element{}
	}
	if e := o.byID[id]; e != nil {
		if anew {
			e.Value = taskOwner{e.Value.(taskOwner).id, strings.Clone(principal), strings.Clone(tool)}
			o.used.MoveToFront(e)
		}
		return
	}
	if o.used.Len() >= maxTasks {
		oldest := o.used.Back()
		delete(o.byID, oldest.Value.(taskOwner).id)
		o.used.Remove(oldest)
	}
	id = strings.Clone(id)
	o.byID[id] = o.used.PushFront(taskOwner{id, strings.Clone(principal), strings.Clone(tool)})
}

// tool returns the tool that made a principal's task, "" if it is unknown.
func (o *taskOwners) tool(principal, id string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.byID[id]
	if e == nil || e.Value.(taskOwner).principal != principal {
		return ""
	}
	return e.Value.(taskOwner).tool
}

// owns reports whether a task is a principal's.
func (o *taskOwners) owns(principal, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.byID[id]
	if e == nil || e.Value.(taskOwner).principal != principal {
		return false
	}
	o.used.MoveToFront(e)
	return true
}

// isTaskMethod reports whether a method is about one task.
func isTaskMethod(method string) bool {
	return strings.HasPrefix(method, "tasks/") && method != "tasks/list"
}

// checkTask prevents one principal from accessing another's task if the upstream does not.
func (p *passthrough) checkTask(principal, method string, params json.RawMessage) error {
	if !isTaskMethod(method) || p.apart != nil && p.apart() {
		return nil
	}
	return p.tasks.check(principal, method, params)
}

// ownTasks records the task in a call's result. From a list it removes tasks of other principals,
// and those of tools that the agent must not run.
func (p *passthrough) ownTasks(ctx context.Context, principal string, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	switch r.Method {
	case "tools/call":
		made, ok := mcptask.Made(result)
		tool := rawjson.Text(r.Fields().Name)
		if ok {
			p.tasks.made(made.ID, principal, tool)
			break
		}
		// Agent servers answer so to callers that know no tasks.
		if id := rawjson.Text(rawjson.GetPath(result, "_meta", "taskId")); id != "" && p.apart != nil && p.apart() {
			p.tasks.named(id, principal, tool)
		}
	case "tasks/list":
		owned := principal != mcp.LocalPrincipal && (p.apart == nil || !p.apart())
		judged := p.judged()
		if !owned && !judged {
			break
		}
		return keepTasks(result, func(id string) bool {
			return (!owned || p.tasks.owns(principal, id)) && (!judged || !p.judge.Refuses(ctx, p.name, "tools/call", p.tasks.tool(principal, id)))
		})
	}
	return result, nil
}

// check refuses access to another principal's task. If there is only one principal, it checks
// nothing.
func (o *taskOwners) check(principal, method string, params json.RawMessage) error {
	if principal == mcp.LocalPrincipal || !isTaskMethod(method) {
		return nil
	}
	id := taskID(params)
	switch {
	case id == "":
		return mcp.Errorf(mcp.KindInvalidParams, "%s needs one taskId, a text", clip(method))
	case o.owns(principal, id):
		return nil
	}
	e := mcp.Errorf(mcp.KindInvalidParams, "no such task: %s", clip(id))
	e.Data, _ = json.Marshal(map[string]string{"kind": mcp.KindNotFound.String(), "taskId": clip(id)})
	return e
}

// taskID returns the task that params name, "" if an upstream might read another one.
func taskID(params json.RawMessage) string {
	id, err := rawjson.Sole(params, "taskId")
	if err != nil {
		return ""
	}
	return rawjson.Text(id)
}

// keepTasks filters the tasks in the result of tasks/list.
func keepTasks(result json.RawMessage, keep func(id string) bool) (json.RawMessage, error) {
	raw := rawjson.Get(result, "tasks")
	if !rawjson.IsArray(raw) {
		return result, nil
	}
	out := []byte{'['}
	err := rawjson.EachElement(raw, func(task []byte) bool {
		if keep(rawjson.Text(rawjson.Get(task, "taskId"))) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, task...)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return rawjson.Set(result, "tasks", append(out, ']'))
}
