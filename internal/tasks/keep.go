package tasks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// keyPrefix starts the keys of the documents, one for each task.
const keyPrefix = store.TaskKeys + "gw."

// keepTime bounds the write of one task.
const keepTime = 5 * time.Second

// record is a task in the store. Questions and results are not in it: the server has them.
type record struct {
	V          int               `json:"v"`
	Handle     string            `json:"handle"`
	Principal  string            `json:"principal"`
	Profile    string            `json:"profile,omitempty"`
	Upstream   string            `json:"upstream"`
	Server     string            `json:"server"` // task.server
	Inc        string            `json:"inc,omitempty"`
	Sole       bool              `json:"sole,omitempty"`
	ID         string            `json:"id"`
	Modern     bool              `json:"modern,omitempty"`
	Agent      bool              `json:"agent,omitempty"`
	Entry      string            `json:"entry"`
	Created    time.Time         `json:"created"`
	Expires    time.Time         `json:"expires"`
	Args       json.RawMessage   `json:"args,omitempty"`
	Domains    json.RawMessage   `json:"domains,omitempty"`
	Mode       json.RawMessage   `json:"mode,omitempty"`
	Provenance result.Provenance `json:"provenance"`
	Mark       string            `json:"mark,omitempty"`
	Status     string            `json:"status"`
	Message    string            `json:"message,omitempty"`
	Poll       time.Duration     `json:"poll,omitempty"`
	Delivered  bool              `json:"delivered,omitempty"`
}

const recordVersion = 2

// record returns the task as the store keeps it.
func (t *task) record() record {
	t.mu.Lock()
	defer t.mu.Unlock()
	status := t.state.Status
	if t.failure != nil {
		status = "failed" // nothing is left to wait for; the server says why
	}
	return record{
		V: recordVersion, Handle: t.handle, Principal: t.owner.principal, Profile: t.owner.profile, Upstream: t.upstream, Server: t.server, Inc: t.inc, Sole: t.sole, ID: t.id, Modern: t.modern, Agent: t.agent,
		Entry: t.entryID, Created: t.created, Expires: t.expires, Args: t.call.args, Domains: t.call.domains, Mode: t.call.mode, Provenance: t.call.provenance, Mark: t.call.mark,
		Status: status, Message: t.state.Message, Poll: t.state.Poll, Delivered: t.delivered,
	}
}

// task returns the task of a record, whose entry is found when an agent asks for it.
func (k record) task(rev uint64) *task {
	return &task{
		handle: k.Handle, owner: owner{k.Principal, k.Profile}, upstream: k.Upstream, server: k.Server, inc: k.Inc, sole: k.Sole, id: k.ID, modern: k.Modern, agent: k.Agent,
		entryID: k.Entry, created: k.Created, expires: k.Expires, call: saved{k.Args, k.Domains, k.Mode, k.Provenance, k.Mark}, doc: document{rev: rev},
		state: mcptask.State{ID: k.ID, Status: k.Status, Message: k.Message, Poll: k.Poll, Modern: k.Modern, Agent: k.Agent}, delivered: k.Delivered,
	}
}

// Keep makes the tasks outlast the process, and restores those that an earlier process has kept. It
// must be called before the Registry is used.
func (r *Registry) Keep(ctx context.Context, docs store.Docs) error {
	var found []*task
	for doc, err := range docs.List(ctx, keyPrefix) {
		if err != nil {
			return fmt.Errorf("restore tasks: %w", err)
		}
		var k record
		if err := json.Unmarshal(doc.Value, &k); err != nil || k.V != recordVersion || keyPrefix+k.Handle != doc.Key {
			continue // of another version, which may come back: it ends by itself
		}
		found = append(found, k.task(doc.Rev))
	}
	slices.SortFunc(found, func(a, b *task) int { return cmp.Or(a.expires.Compare(b.expires), cmp.Compare(a.handle, b.handle)) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.docs = docs
	for _, t := range found {
		r.byHandle[t.handle] = r.byAge.PushBack(t)
		r.count[t.owner.principal]++
	}
	return nil
}

// save writes a task to the store, if there is one. When it returns nil, the task is there after a
// restart, unless it ends with the gateway or was forgotten.
func (r *Registry) save(t *task) error {
	if !r.keeps(t) {
		return nil
	}
	return t.doc.save(r.docs, t.handle, r.nodes != nil, func() (value []byte, left time.Duration, err error) {
		value, err = json.Marshal(t.record())
		return value, t.expires.Sub(r.now()), err
	})
}

// forget removes a task that gave its place to another one, for good: a request that still follows it
// does not save it again. A task that stays in the store because of an error ends there by itself.
func (r *Registry) forget(t *task) {
	if t != nil && r.keeps(t) {
		t.doc.remove(r.docs, t.handle)
	}
}

// document is the document of a task in the store. It is safe for concurrent use.
type document struct {
	mu   sync.Mutex // held while the task is saved; guards below
	rev  uint64     // 0 before the first writing
	gone bool       // it was removed, and is not written again
}

// save writes the value that make returns, with the time that is left of it. shared says that other nodes write the
// document as well.
func (d *document) save(docs store.Docs, handle string, shared bool, make func() (value []byte, left time.Duration, err error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil
	}
	value, left, err := make()
	if err != nil || left <= 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	for range 3 {
		var rev uint64
		if rev, err = docs.Set(ctx, keyPrefix+handle, value, d.rev, left); err == nil {
			d.rev = rev
			return nil
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrConflict) {
			return err
		}
		// The write may have been made. Nodes of a cluster write the same of the task, except for its state,
		// which the server knows better.
		doc, failed := docs.Get(ctx, keyPrefix+handle)
		if failed != nil {
			continue
		}
		if shared && d.rev != 0 && doc.Rev == 0 {
			d.gone = true // by another node
			return nil
		}
		if d.rev = doc.Rev; doc.Rev != 0 && bytes.Equal(doc.Value, value) {
			return nil
		}
	}
	return err
}

// remove removes the document, for good.
func (d *document) remove(docs store.Docs, handle string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	_ = docs.Delete(ctx, keyPrefix+handle, d.rev)
}

// keep saves a task whose handle an agent is about to get. If that fails, the task has no handle.
func (r *Registry) keep(t *task) error {
	err := r.shareID(t)
	if err == nil {
		err = r.save(t)
	}
	if err == nil {
		return nil
	}
	r.drop(t.handle)
	return mcp.Errorf(mcp.KindStoreUnavailable, "%w", err)
}

// resolve finds the entry of a task that was restored. It returns an error while the server is not
// listed.
func (r *Registry) resolve(t *task, c *catalog.Catalog) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.entry != nil {
		return nil
	}
	e, ok := c.Lookup(t.entryID)
	if !ok || e.Upstream != t.upstream {
		return &result.Error{Code: result.UpstreamUnavailable, Path: t.entryID, Message: fmt.Sprintf(
			"the task of %s is kept, and its server %q does not offer the tool now; try again when it does", t.entryID, t.upstream)}
	}
	t.entry = e
	return nil
}

// replace drops the older tasks with the id of a new one that belong to another owner: the server has
// started again and counts its tasks again. Tasks stay apart where the server tells owners apart.
func (r *Registry) replace(by *task, at Place) {
	if !at.Shared || by.agent { // an agent server may name a task that exists
		return
	}
	var gone []*task
	r.mu.Lock()
	for e := r.byAge.Front(); e != nil; {
		t, next := e.Value.(*task), e.Next()
		if t.id == by.id && t.upstream == by.upstream && t.server == by.server && t.owner != by.owner {
			r.dropLocked(e)
			t.replaced.Store(true)
			gone = append(gone, t)
		}
		e = next
	}
	r.mu.Unlock()
	for _, t := range gone {
		r.forget(t)
	}
	r.replaceElsewhere(by)
}
