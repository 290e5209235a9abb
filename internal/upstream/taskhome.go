package upstream

import (
	"container/list"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
)

// maxTaskHomes bounds the tasks of one upstream whose connections are known. The oldest is forgotten
// first; requests about it go over the connection for the caller's other calls.
const maxTaskHomes = 4096

// taskHomes records over which connection each task was made. Servers may keep the tasks of each
// connection apart, and a later call can go over another connection:
//
//	the server asked for roots in the meantime   the session has a connection of its own now
//	another session of the principal calls       that session has a connection of its own
//
// The zero value knows no task. It is safe for concurrent use.
type taskHomes struct {
	mu     sync.Mutex // guards below
	byTask map[taskKey][]*list.Element
	byAge  list.List // of taskHome, the oldest in front
}

// taskKey identifies a task of a principal. Servers should not use an id twice, but connections can
// have equal ids.
type taskKey struct{ principal, id string }

type taskHome struct {
	taskKey
	slot *slot
}

// learn records the task that a session's call over s was answered with, if it was.
func (h *taskHomes) learn(session *mcp.Session, method string, result json.RawMessage, s *slot) {
	if session == nil || method != "tools/call" || !rawjson.MayHold(result, "taskId") {
		return
	}
	if made, ok := mcptask.Made(result); ok {
		h.add(session.Principal(), made.ID, s)
	}
}

// add records a task of a slot. A slot that has ended is not recorded.
func (h *taskHomes) add(principal, id string, s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := taskKey{principal, id}
	if s.ctx.Err() != nil || slices.ContainsFunc(h.byTask[key], func(e *list.Element) bool { return e.Value.(taskHome).slot == s }) {
		return
	}
	if h.byAge.Len() >= maxTaskHomes {
		h.drop(h.byAge.Front())
	}
	if h.byTask == nil {
		h.byTask = map[taskKey][]*list.Element{}
	}
	key = taskKey{strings.Clone(principal), strings.Clone(id)}
	h.byTask[key] = append(h.byTask[key], h.byAge.PushBack(taskHome{key, s}))
}

// drop removes an element. The caller holds mu.
func (h *taskHomes) drop(e *list.Element) {
	key := h.byAge.Remove(e).(taskHome).taskKey
	left := slices.DeleteFunc(h.byTask[key], func(other *list.Element) bool { return other == e })
	if len(left) == 0 {
		delete(h.byTask, key)
		return
	}
	h.byTask[key] = left
}

// of returns the slot that made a principal's task, nil if it is not known or has ended. If several
// made one of this id, the slot with the key goes first, then the latest.
func (h *taskHomes) of(principal, id string, key slotKey) (home *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byTask[taskKey{principal, id}] {
		s := e.Value.(taskHome).slot
		if s.ctx.Err() != nil || s.key.session != nil && isClosed(s.key.session.Done()) {
			continue // calls over it would fail while it ends
		}
		if s.key.grant != key.grant {
			continue // of another client of the principal, whose connection may show more
		}
		if home = s; s.key == key {
			break
		}
	}
	return home
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// forget removes the tasks of a slot, which must have ended.
func (h *taskHomes) forget(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := h.byAge.Front(); e != nil; {
		next := e.Next()
		if e.Value.(taskHome).slot == s {
			h.drop(e)
		}
		e = next
	}
}

// len returns how many tasks are recorded.
func (h *taskHomes) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byAge.Len()
}

// taskOf returns the id of the task that a request is about, "" for other requests.
func taskOf(method string, params json.RawMessage) string {
	switch method {
	case mcptask.MethodGet, mcptask.MethodResult, mcptask.MethodUpdate, mcptask.MethodCancel:
		return rawjson.Text(rawjson.Get(params, "taskId"))
	}
	return ""
}
