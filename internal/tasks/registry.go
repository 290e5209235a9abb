package tasks

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// handlePrefix starts every handle.
const handlePrefix = "task_"

// maxAll bounds the tasks of all principals together.
const maxAll = 4096

// IsHandle reports whether an agent's text has the form of a handle.
func IsHandle(text string) bool { return strings.HasPrefix(text, handlePrefix) }

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

func newHandle() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return handlePrefix + strings.ToLower(encoding.EncodeToString(random[:]))
}

// Registry has the tasks whose handles were given to agents. It belongs to no configuration, so
// that handles outlive a reload. It is safe for concurrent use.
type Registry struct {
	now   func() time.Time
	docs  store.Docs // nil: tasks end with the process
	nodes *Nodes     // nil: there is one node

	mu       sync.Mutex // guards below
	byHandle map[string]*list.Element
	byAge    list.List      // of *task, the oldest in front
	count    map[string]int // tasks by principal
}

// NewRegistry returns an empty Registry. A nil clock is time.Now.
func NewRegistry(now func() time.Time) *Registry {
	if now == nil {
		now = time.Now
	}
	return &Registry{now: now, byHandle: map[string]*list.Element{}, count: map[string]int{}}
}

// owner says who may continue a task: a principal, at the profile of the call that made it.
type owner struct{ principal, profile string }

// ownerOf returns the owner of the tasks that a call makes, and of those that it may continue.
func ownerOf(ctx context.Context, c *dispatch.Call) owner {
	return owner{c.Request.Session.Principal(), identity.RouteOf(ctx).Profile}
}

// task is a task of a server that a call became.
type task struct {
	handle           string
	owner            owner
	upstream, id     string
	server           string // Place.Server, when the task was made
	inc              string // the node of a cluster whose program has the task, "" for a server that all nodes ask
	sole             bool   // the id names one task of the server
	modern           bool
	agent            bool // an agent server made it; modern is set as well
	entryID          string
	entry            *catalog.Entry // nil in a restored task until an agent asks for it; guarded by Registry.mu then
	created, expires time.Time
	call             saved

	replaced atomic.Bool // the server has given its id to a task of another owner

	doc document // its lock is taken before mu

	mu        sync.Mutex // guards below
	state     mcptask.State
	note      string              // why the state is not newer, or what the task waits for
	questions map[string]struct{} // keys of inputRequests that an agent is asked or has answered
	failure   *result.Error       // the task ended without a result, and this is why
	delivered bool                // an agent has the result
}

// saved is the part of a call that its result needs.
type saved struct {
	args, domains, mode json.RawMessage
	provenance          result.Provenance
	mark                string // of the label of its result
}

// save copies the part of a call that its result needs. The call's own bytes end with its request.
func save(c *dispatch.Call) saved {
	s := saved{args: json.RawMessage("{}"), domains: slices.Clone(c.Split.Asked), mode: slices.Clone(c.Split.AskedMode), provenance: c.Provenance, mark: c.Label.Mark()}
	if c.Entry.ResourceTool {
		for _, key := range []string{plane.ParamDomains, plane.ParamMode} {
			if value := rawjson.Get(c.Args, key); value != nil {
				if args, err := rawjson.Set(s.args, key, value); err == nil {
					s.args = args
				}
			}
		}
	}
	return s
}

// restore puts what was saved into the call that fetches the result.
func (t *task) restore(c *dispatch.Call) {
	c.Entry = t.entry
	c.Label = c.Label.Join(flow.Marked(t.call.mark))
	c.Args, c.Split.Asked, c.Split.AskedMode, c.Provenance = t.call.args, t.call.domains, t.call.mode, t.call.provenance
}

// ended reports whether nothing is left to wait for.
func (t *task) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure != nil || t.state.Final()
}

// set records what the server said last.
func (t *task) set(s mcptask.State, note string) {
	s.Result, s.Error, s.Questions = nil, nil, nil // they are the request's
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Status != "" {
		t.state = s
	}
	t.note = note
}

// fail records that the task has no result.
func (t *task) fail(e *result.Error) *result.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = e
	return e
}

// failed returns the error that the task ended with, or nil.
func (t *task) failed() *result.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// deliver reports whether the result goes to an agent for the first time.
func (t *task) deliver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.delivered
	t.delivered = true
	return first
}

// add keeps a task and gives it a handle. If the principal has the most tasks, an ended one makes
// room. add returns false if all of them run.
func (r *Registry) add(t *task, ttl time.Duration, most int) bool {
	gone, ok := r.enter(t, ttl, most)
	r.forget(gone)
	return ok
}

// enter is add, without the store. It returns the task that made room.
func (r *Registry) enter(t *task, ttl time.Duration, most int) (gone *task, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone, ok = r.roomLocked(t.owner.principal, most, true)
	if !ok {
		return nil, false
	}
	t.handle, t.expires = newHandle(), r.now().Add(ttl)
	r.byHandle[t.handle] = r.byAge.PushBack(t)
	r.count[t.owner.principal]++
	return gone, true
}

// room reports whether add would find room for another task of a principal.
func (r *Registry) room(principal string, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.roomLocked(principal, most, false)
	return ok
}

// roomLocked reports whether there is room for another task of a principal. If take is set, it drops
// the ended task that makes room, and returns it.
func (r *Registry) roomLocked(principal string, most int, take bool) (gone *task, ok bool) {
	now := r.now()
	for e := r.byAge.Front(); e != nil && !now.Before(e.Value.(*task).expires); e = r.byAge.Front() {
		r.dropLocked(e)
	}
	own, all := r.count[principal] >= most, r.byAge.Len() >= maxAll
	if !own && !all {
		return nil, true
	}
	for e := r.byAge.Front(); e != nil; e = e.Next() {
		if t := e.Value.(*task); (!own || t.owner.principal == principal) && t.ended() {
			if take {
				r.dropLocked(e)
				gone = t
			}
			return gone, true
		}
	}
	return nil, false
}

func (r *Registry) dropLocked(e *list.Element) {
	t := e.Value.(*task)
	r.byAge.Remove(e)
	delete(r.byHandle, t.handle)
	if r.count[t.owner.principal]--; r.count[t.owner.principal] == 0 {
		delete(r.count, t.owner.principal)
	}
}

// get returns an owner's task, nil if there is none with the handle.
func (r *Registry) get(by owner, handle string) *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byHandle[handle]
	if e == nil {
		return nil
	}
	t := e.Value.(*task)
	switch {
	case t.owner != by:
		return nil
	case !r.now().Before(t.expires):
		r.dropLocked(e)
		return nil
	}
	return t
}

// Len returns how many tasks are kept.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byAge.Len()
}
