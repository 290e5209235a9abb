package passthrough

import (
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
)

// maxTasks bounds the tasks with a known owner, per upstream. The least recently requested one is
// forgotten first and then belongs to no principal.
const maxTasks = 10_000

// taskOwners records which principal has made which task of an upstream, and with which tool.
// Principals share the connection to the upstream, which takes them for one client that may read
// all tasks.
type taskOwners struct {
	docs *taskDocs // nil: owners end with the process

	mu   sync.Mutex // guards below
	byID map[string]*list.Element
	used list.List // of taskOwner, the latest in front
}

type taskOwner struct {
	id, principal, tool string
	inc                 string // the node whose server has the task, "" for a server that all nodes ask
}

// clone returns a copy that keeps no message in memory.
func (t taskOwner) clone() taskOwner {
	return taskOwner{strings.Clone(t.id), strings.Clone(t.principal), strings.Clone(t.tool), strings.Clone(t.inc)}
}

// maxTaskTool bounds the name of a task's tool. A longer one is forgotten.
const maxTaskTool = 512

// made records a task that a call has made. An older task with the id is forgotten: the server has
// started again and counts its tasks again.
func (o *taskOwners) made(ctx context.Context, id, principal, tool string) {
	if id == "" || len(id) > maxTaskID {
		return
	}
	if len(tool) > maxTaskTool {
		tool = ""
	}
	t := taskOwner{id, principal, tool, o.docs.nodeOf()}
	o.docs.write(ctx, t)
	o.record(t, true)
}

// named records a task that a call has named, unless it is known: it may be an older one.
func (o *taskOwners) named(ctx context.Context, id, principal, tool string) {
	if _, known, err := o.find(ctx, id); !known && err == nil {
		o.made(ctx, id, principal, tool)
	}
}

// record keeps a task in memory.
func (o *taskOwners) record(t taskOwner, anew bool) {
	t = t.clone()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[string]*list.Element{}
	}
	if e := o.byID[t.id]; e != nil {
		if anew {
			e.Value = t
			o.used.MoveToFront(e)
		}
		return
	}
	if o.used.Len() >= maxTasks {
		oldest := o.used.Back()
		delete(o.byID, oldest.Value.(taskOwner).id)
		o.used.Remove(oldest)
	}
	o.byID[t.id] = o.used.PushFront(t)
}

// find returns the owner of a task, from the store if an earlier process has recorded it. In a cluster the
// store is asked about each task that another node may have recorded: the server may have given its id to a
// task of another principal since.
func (o *taskOwners) find(ctx context.Context, id string) (t taskOwner, ok bool, err error) {
	if id == "" || len(id) > maxTaskID {
		return t, false, nil
	}
	o.mu.Lock()
	e := o.byID[id]
	if e != nil {
		t = e.Value.(taskOwner)
	}
	o.mu.Unlock()
	if e != nil && !o.docs.others(t) {
		return t, true, nil
	}
	kept, ok, err := o.docs.read(ctx, id)
	switch {
	case ok:
		o.record(kept, e != nil)
		return kept, true, nil
	case err == nil && e != nil: // beyond the share of its principal
		return t, true, nil
	}
	return kept, ok, err
}

// tool returns the tool that made a principal's task, "" if it is unknown.
func (o *taskOwners) tool(ctx context.Context, principal, id string) string {
	t, _, _ := o.find(ctx, id) // check logs a store that does not answer
	if t.principal != principal {
		return ""
	}
	return t.tool
}

// owns reports whether a task is a principal's.
func (o *taskOwners) owns(ctx context.Context, principal, id string) (bool, error) {
	t, ok, err := o.find(ctx, id)
	if !ok || t.principal != principal {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.byID[id]; e != nil {
		o.used.MoveToFront(e)
	}
	return true, nil
}

// isTaskMethod reports whether a method is about one task.
func isTaskMethod(method string) bool {
	return strings.HasPrefix(method, "tasks/") && method != "tasks/list"
}

// checkTask prevents one principal from accessing another's task if the upstream does not.
func (p *passthrough) checkTask(ctx context.Context, principal, method string, params json.RawMessage) error {
	if !isTaskMethod(method) || p.apart != nil && p.apart() {
		return nil
	}
	return p.tasks.check(ctx, principal, method, params)
}

// ownTasks records the task in a call's result. From a list it removes tasks of other principals,
// and tasks of tools that the agent must not run.
func (p *passthrough) ownTasks(ctx context.Context, principal string, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	switch r.Method {
	case "tools/call":
		made, ok := mcptask.Made(result)
		tool := rawjson.Text(r.Fields().Name)
		if ok {
			p.tasks.made(ctx, made.ID, principal, tool)
			break
		}
		// Agent servers answer so to callers that know no tasks.
		if id := rawjson.Text(rawjson.GetPath(result, "_meta", "taskId")); id != "" && p.apart != nil && p.apart() {
			p.tasks.named(ctx, id, principal, tool)
		}
	case "tasks/list":
		owned := principal != mcp.LocalPrincipal && (p.apart == nil || !p.apart())
		judged := p.judged()
		if !owned && !judged {
			break
		}
		return keepTasks(result, func(id string) (bool, error) {
			t, known, err := p.tasks.find(ctx, id)
			switch {
			case err != nil && (owned || judged):
				return false, err
			case owned && (!known || t.principal != principal):
				return false, nil
			case t.principal != principal:
				t.tool = ""
			}
			return !judged || !p.judge.Refuses(ctx, p.name, "tools/call", t.tool), nil
		})
	}
	return result, nil
}

// check refuses access to another principal's task. If there is only one principal, it checks
// nothing.
func (o *taskOwners) check(ctx context.Context, principal, method string, params json.RawMessage) error {
	if principal == mcp.LocalPrincipal || !isTaskMethod(method) {
		return nil
	}
	id := taskID(params)
	if id == "" {
		return mcp.Errorf(mcp.KindInvalidParams, "%s needs one taskId, a text", clip(method))
	}
	if mine, err := o.owns(ctx, principal, id); mine || err != nil {
		return err
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

// keepTasks filters the tasks in the result of tasks/list. It asks once for each id.
func keepTasks(result json.RawMessage, keep func(id string) (bool, error)) (json.RawMessage, error) {
	raw := rawjson.Get(result, "tasks")
	if !rawjson.IsArray(raw) {
		return result, nil
	}
	out, kept := []byte{'['}, map[string]bool{}
	var failed error
	err := rawjson.EachElement(raw, func(task []byte) bool {
		id := rawjson.Text(rawjson.Get(task, "taskId"))
		keeps, asked := kept[id]
		if !asked {
			if keeps, failed = keep(id); failed != nil {
				return false
			}
			kept[id] = keeps
		}
		if keeps {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, task...)
		}
		return true
	})
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	return rawjson.Set(result, "tasks", append(out, ']'))
}
