package passthrough

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// taskDocs keeps the owners of an upstream's tasks over a restart, in a document for each task. The
// tasks of a server that weir runs end with weir: they are not kept, unless other nodes of a cluster look
// for the node that has them.
type taskDocs struct {
	docs   store.Docs
	log    *slog.Logger
	name   string
	target func() (Target, bool)
	inc    func() string // of this node; nil: there is one node
	late   lateOwners
	shares taskShares
}

const (
	// taskPrefix is the prefix of the keys of the documents.
	taskPrefix = store.PassedTaskKeys
	// taskTTL is how long an owner is kept. Servers keep tasks for a shorter time.
	taskTTL = 24 * time.Hour
	// taskTime bounds one request to the store.
	taskTime = 2 * time.Second
)

// ownerRecord is the document.
type ownerRecord struct {
	V         int    `json:"v"`
	Principal string `json:"principal"`
	Tool      string `json:"tool,omitempty"`
	Inc       string `json:"inc,omitempty"` // taskOwner.inc
}

const ownerVersion = 1

// own reports whether only this process has the upstream, so that another node asks another one for the
// same task: a program, or a server at whose requests weir looks one by one.
func (d *taskDocs) own(t Target, ok bool) bool { return !ok || t.Process }

// nodeOf returns taskOwner.inc for the tasks that are made now. d may be nil.
func (d *taskDocs) nodeOf() string {
	if d == nil || d.inc == nil {
		return ""
	}
	if t, ok := d.target(); !d.own(t, ok) || t.Cluster {
		return ""
	}
	return d.inc()
}

// others reports whether another node may have recorded a newer owner of a task. d may be nil.
func (d *taskDocs) others(t taskOwner) bool {
	return d != nil && d.inc != nil && (t.inc == "" || t.inc != d.inc())
}

// key returns the key of a task, false for tasks that are not kept. The URL is in it: another server
// under the name has other tasks.
func (d *taskDocs) key(id string) (string, bool) {
	if d == nil {
		return "", false
	}
	t, ok := d.target()
	at := "" // no URL: the record says which node has the task, if it is not the same server at all nodes
	switch {
	case !d.own(t, ok):
		at = t.URL.String()
	case d.inc == nil:
		return "", false
	}
	return taskPrefix + store.Hash(d.name+"\x00"+at) + "." + store.Hash(id), true
}

// write keeps a task's owner. When the store cannot, it is written again later, and until then the
// store is not asked about the task.
func (d *taskDocs) write(ctx context.Context, t taskOwner) {
	if _, ok := d.key(t.id); !ok {
		return
	}
	if d.late.waits() { // behind those that wait: one of them may be an earlier owner of the task
		d.late.add(t, d.set)
		return
	}
	if err := d.set(ctx, t); err != nil {
		d.log.Warn("the owner of a task could not be kept for a restart; it is tried again", "upstream", d.name, "err", err)
		d.late.add(t, d.set)
	}
}

// set writes the document of a task.
func (d *taskDocs) set(ctx context.Context, t taskOwner) error {
	key, ok := d.key(t.id)
	if !ok {
		return nil // another server has the name now
	}
	value, err := json.Marshal(ownerRecord{ownerVersion, t.principal, t.tool, t.inc})
	if err == nil {
		// The task is there, whether or not its agent still waits for the answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), taskTime)
		defer cancel()
		err = d.place(ctx, t.principal, key, value)
	}
	return err
}

// place writes a document. A principal that has used up its share replaces the document of an older
// task with the same id, which has another owner, and makes no further one.
func (d *taskDocs) place(ctx context.Context, principal, key string, value []byte) error {
	ok, first := d.shares.take(principal)
	if ok {
		err := store.NewSole(d.docs, key, 0).Write(ctx, value, taskTTL)
		if err != nil {
			d.shares.back(principal)
		}
		return err
	}
	if first {
		d.log.Warn("a principal has made so many tasks that a restart forgets whose its further ones are", "upstream", d.name, "principal", principal, "kept", maxKeptTasks)
	}
	doc, err := d.docs.Get(ctx, key)
	if err != nil || doc.Rev == 0 {
		return err
	}
	return store.NewSole(d.docs, key, doc.Rev).Write(ctx, value, taskTTL)
}

// close ends the writer of late owners. d may be nil.
func (d *taskDocs) close() {
	if d != nil {
		d.late.close()
	}
}

// read returns the owner that an earlier process has kept. ok is false if there is none.
func (d *taskDocs) read(ctx context.Context, id string) (t taskOwner, ok bool, err error) {
	key, ok := d.key(id)
	if !ok {
		return t, false, nil
	}
	if t, ok, err = d.late.find(id); ok || err != nil {
		return t, ok, err
	}
	ctx, cancel := context.WithTimeout(ctx, taskTime)
	defer cancel()
	doc, err := d.docs.Get(ctx, key)
	if err != nil {
		return t, false, mcp.Errorf(mcp.KindStoreUnavailable, "the store of this gateway cannot be asked whose task this is; try again: %w", err)
	}
	var r ownerRecord
	if doc.Rev == 0 || json.Unmarshal(doc.Value, &r) != nil || r.V != ownerVersion {
		return t, false, nil
	}
	return taskOwner{id, r.Principal, r.Tool, r.Inc}, true, nil
}
