package router

import (
	"container/list"
	"encoding/json"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// maxTasks bounds the tasks whose owner is known for one upstream. The one not
// asked for the longest is forgotten first, and is nobody's then.
const maxTasks = 10_000

// taskOwners says which principal has made which task of an upstream. Principals
// share the connection that leads there, so the upstream itself takes them for
// one client, which may read all tasks.
type taskOwners struct {
	mu   sync.Mutex // guards below
	byID map[string]*list.Element
	used list.List // of taskOwner, the latest in front
}

type taskOwner struct{ id, principal string }

// made notes the task that a call was answered with, if it was.
func (o *taskOwners) made(principal string, result json.RawMessage) {
	id := rawjson.Text(rawjson.GetPath(result, "task", "taskId")) // 2025-11-25
	if id == "" && rawjson.Text(rawjson.Get(result, "resultType")) == "task" {
		id = rawjson.Text(rawjson.Get(result, "taskId")) // 2026-07-28
	}
	if id == "" || len(id) > maxTaskID {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[string]*list.Element{}
	}
	if o.byID[id] != nil {
		return // whoever was first
	}
	if o.used.Len() >= maxTasks {
		oldest := o.used.Back()
		delete(o.byID, oldest.Value.(taskOwner).id)
		o.used.Remove(oldest)
	}
	o.byID[strings.Clone(id)] = o.used.PushFront(taskOwner{strings.Clone(id), principal})
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

// checkTask refuses to tell one principal of another's task, where the upstream
// would.
func (p *passthrough) checkTask(principal, method string, params json.RawMessage) error {
	if !isTaskMethod(method) || p.apart != nil && p.apart() {
		return nil
	}
	return p.tasks.check(principal, method, params)
}

// ownTasks notes the task that a call was answered with, and leaves out others'
// of a list.
func (p *passthrough) ownTasks(principal, method string, result json.RawMessage) (json.RawMessage, error) {
	switch {
	case method == "tools/call":
		p.tasks.made(principal, result)
	case method == "tasks/list" && (p.apart == nil || !p.apart()):
		return p.tasks.own(principal, result)
	}
	return result, nil
}

// check refuses to tell one principal of another's task. Where there is no other
// principal it checks nothing.
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

// taskID is the task that params name, "" where an upstream might read another one:
// where the key stands twice, or beside one that differs in case only.
func taskID(params json.RawMessage) string {
	const key = "taskId"
	sole := true
	err := rawjson.EachMember(params, func(m rawjson.Member) bool {
		sole = sole && (string(m.Key) == key || !strings.EqualFold(string(m.Key), key))
		return true
	})
	if err != nil || !sole {
		return ""
	}
	return rawjson.Text(rawjson.Get(params, key))
}

// own leaves a principal's own tasks in the result of tasks/list.
func (o *taskOwners) own(principal string, result json.RawMessage) (json.RawMessage, error) {
	raw := rawjson.Get(result, "tasks")
	if principal == mcp.LocalPrincipal || !rawjson.IsArray(raw) {
		return result, nil
	}
	out := []byte{'['}
	err := rawjson.EachElement(raw, func(task []byte) bool {
		if o.owns(principal, rawjson.Text(rawjson.Get(task, "taskId"))) {
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
