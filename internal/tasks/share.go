package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Nodes connects the Registry with the Registries of the other gateways of a cluster.
//
//	server with a url     any node asks it for the task
//	program of a gateway  the node of the program asks it for the others
type Nodes struct {
	// Inc returns the incarnation of this node.
	Inc func() string
	// Ask makes a request about a task of a principal to a program of the node with an INC. The error is
	// errNodeGone if there is no such node any more. It is called concurrently.
	Ask func(ctx context.Context, inc, principal string, q Question) (json.RawMessage, error)
}

// errNodeGone says that the gateway is gone whose program has a task.
var errNodeGone = errors.New("the gateway of the task is gone")

// A Question is a request about a task of a server program.
type Question struct {
	Upstream string          `json:"upstream"`
	Method   string          `json:"method"`
	Params   json.RawMessage `json:"params"`
	Modern   bool            `json:"modern,omitempty"`
	Agent    bool            `json:"agent,omitempty"`
}

// idPrefix starts the keys of the documents that say which handle has the id of a server's task.
const idPrefix = store.TaskKeys + "gwid."

// maxHandle bounds the handles for which the store is asked.
const maxHandle = 64

// idRecord is the document of an id: the latest task of it.
type idRecord struct {
	V         int    `json:"v"`
	Handle    string `json:"handle"`
	Principal string `json:"principal"`
	Profile   string `json:"profile,omitempty"`
}

// Share makes handles work at all nodes of a cluster. Every request about a handle asks the store whether it
// is there, because another node may have forgotten it. It must be called before the Registry is used.
func (r *Registry) Share(docs store.Docs, n *Nodes) { r.docs, r.nodes = docs, n }

// home returns task.inc for a task that is made now at a place.
func (r *Registry) home(at Place) string {
	if r.nodes == nil || at.Server != "" {
		return ""
	}
	return r.nodes.Inc()
}

// elsewhere reports whether another node has to ask for a task.
func (r *Registry) elsewhere(t *task) bool {
	return r.nodes != nil && t.inc != "" && t.inc != r.nodes.Inc()
}

// keeps reports whether a task has a document. Without one it ends with the Registry.
func (r *Registry) keeps(t *task) bool { return r.docs != nil && (t.server != "" || t.inc != "") }

// look is get, which finds the tasks of other nodes as well.
func (r *Registry) look(ctx context.Context, by owner, handle string) (*task, error) {
	t := r.get(by, handle)
	if r.nodes == nil || t != nil && t.inc == r.nodes.Inc() {
		return t, nil
	}
	if len(handle) > maxHandle || strings.ContainsFunc(handle, func(c rune) bool { return !(c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9') }) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	doc, err := r.docs.Get(ctx, keyPrefix+handle)
	if err != nil {
		return nil, &result.Error{Code: result.UpstreamUnavailable, Path: text.Fit(handle, 60), Cause: mcp.Errorf(mcp.KindStoreUnavailable, "%w", err),
			Details: json.RawMessage(`{"kind":"store_unavailable"}`),
			Message: "the store of this gateway cannot be asked about the task now; " + store.Remedy(err)}
	}
	var k record
	if doc.Rev == 0 || json.Unmarshal(doc.Value, &k) != nil || k.V != recordVersion {
		r.drop(handle) // another node has forgotten it
		return nil, nil
	}
	switch {
	case by != owner{k.Principal, k.Profile}, !r.now().Before(k.Expires):
		return nil, nil
	case t != nil:
		return t, nil
	}
	return r.adopt(k.task(doc.Rev)), nil
}

// adopt keeps a task of another node in memory, so that requests that follow it at the same time share what
// they know. Beyond the bound of all tasks, it is read again for each request.
func (r *Registry) adopt(t *task) *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byHandle[t.handle]; e != nil {
		return e.Value.(*task)
	}
	if r.byAge.Len() < maxAll {
		r.byHandle[t.handle] = r.byAge.PushBack(t)
		r.count[t.owner.principal]++
	}
	return t
}

// drop forgets a task in memory.
func (r *Registry) drop(handle string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byHandle[handle]; e != nil {
		r.dropLocked(e)
	}
}

// idKey returns the key of the id of a task at a server that all nodes ask.
func idKey(t *task) string {
	return idPrefix + store.Hash(t.upstream+"\x00"+t.server) + "." + store.Hash(t.id)
}

// shareID writes which handle has the id of a task whose handle an agent is about to get.
func (r *Registry) shareID(t *task) error {
	if r.nodes == nil || t.server == "" || !t.sole {
		return nil
	}
	value, err := json.Marshal(idRecord{1, t.handle, t.owner.principal, t.owner.profile})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	return store.NewSole(r.docs, idKey(t), 0).Write(ctx, value, t.expires.Sub(r.now()))
}

// replaceElsewhere forgets the handle of an older task with the id of a new one that belongs to another owner.
// It is replace for the handles that other nodes have given.
func (r *Registry) replaceElsewhere(by *task) {
	if r.nodes == nil || by.server == "" || !by.sole {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	doc, err := r.docs.Get(ctx, idKey(by))
	var k idRecord
	if err != nil || doc.Rev == 0 || json.Unmarshal(doc.Value, &k) != nil || by.owner == (owner{k.Principal, k.Profile}) {
		return // without the store no handle works
	}
	if old, err := r.docs.Get(ctx, keyPrefix+k.Handle); err == nil && old.Rev != 0 {
		_ = r.docs.Delete(ctx, old.Key, old.Rev) // else a node has just written it, and the id is the server's to judge
	}
}

// ask makes a request about a task, at the node whose program has it.
func (w *watch) ask(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if t := w.task; w.Registry.elsewhere(t) {
		return w.Registry.nodes.Ask(ctx, t.inc, t.owner.principal, Question{t.upstream, method, params, t.modern && !t.agent, t.agent})
	}
	return w.Client.ask(ctx, w.call, mcptask.State{Modern: w.task.modern, Agent: w.task.agent}, method, params, back)
}

// nodeGone is the error for a task that ended with the gateway whose program had it.
func (w *watch) nodeGone() error {
	return w.task.fail(&result.Error{Code: result.UpstreamError, Path: w.task.entry.ID, Message: fmt.Sprintf(
		"the task of %s is gone with the gateway that ran its server %q; run the tool again if its result is still needed", w.task.entry.ID, w.task.upstream)})
}
