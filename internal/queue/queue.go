package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/lease"
	"github.com/weir-mcp/weir/internal/store"
)

// Options configures a Queue. Docs and PlaceOptions.Run must be set; other zero values stand for the
// defaults named.
type Options struct {
	PlaceOptions
	// Docs keeps submitted tasks.
	Docs store.Docs
	// Group is the name of the queue that processes share: letters, digits, "-" and "_". It is empty
	// if no other process uses Docs.
	Group string
	// RetainCount (1,000) and RetainBytes (64 MB) bound the ended tasks of the Queue that can still be
	// read. The oldest go first. A negative number is no bound. With a Group, the store bounds them.
	RetainCount int
	RetainBytes int64
	// RetainAge bounds how long an ended task can be read: an hour.
	RetainAge time.Duration
	// Close ends the store, after everything else. It may be nil.
	Close func()
}

const (
	// changeLimit bounds the attempts of a change. An election of the store fits in.
	changeLimit = 12 * time.Second
	// claimLimit bounds the attempts to claim a task, which holds a place meanwhile.
	claimLimit = lease.RenewEvery
	// saveLimit is how long the store may refuse the end of a task before its result is given up.
	saveLimit = lease.FenceAfter
	// maxStarts is how often a task with Spec.Idempotent is started.
	maxStarts = 3
)

// own stands for the group of a queue that is not shared.
const own = "own"

// Queue is places to run, and tasks that wait for them as documents of a store. Processes with a Group
// take tasks from one line. A task starts at most once, unless it is idempotent. Calls of Do are the
// process's own, and stand in the same line. All methods are safe for concurrent use.
//
//	t.GROUP.ID    a task: pending ─CAS─▶ running{holder} ─CAS─▶ completed, failed, cancelled
//	th.GROUP.NAME its holder lives; see package lease
//
// A task is changed only by compare-and-set. If its holder is gone, any process ends it as interrupted,
// or, if it is idempotent, puts it back into the line.
type Queue struct {
	*Places
	o      Options
	shared bool
	lease  *lease.Holder
	stop   func()    // of Follow
	once   sync.Once // of Close
	loops  sync.WaitGroup
	wake   chan struct{} // asks the loop to work; one is enough

	mu    sync.Mutex // guards below; locked before Places.mu
	due   bool       // tasks without a run are to be looked for, and then the line is open
	tasks map[string]*task
	ended []*task     // that count for RetainCount and RetainBytes, in order of their end
	bytes int64       // of ended
	over  []store.Doc // of tasks that are over a bound: to be deleted
	all   bool        // no task is in the store that is not in tasks
}

// task is the part of a task that a process remembers: neither payload nor result.
type task struct {
	owner string
	rev   uint64
	rec   document
	line  waiter
	size  int64         // bytes that it counts when it has ended
	run   *run          // while it is here
	end   *record       // its end, while the store does not take it
	ended chan struct{} // closed when the task has ended, or is gone
	over  sync.Once     // closes ended: a store that loses changes can tell of an earlier state afterwards
}

// run is a task at a place of this process. Queue.mu guards it, except the log.
type run struct {
	holder  string
	log     tail
	cancel  context.CancelCauseFunc
	claimed bool  // the store has confirmed it
	lost    error // the task is cancelled, or taken by others: its end is not written
}

// document is a task as the store has it.
type document struct {
	V int `json:"v"`
	record
	Holder string `json:"holder,omitempty"`

	rev uint64 // of the document
}

// heldBy reports whether the task runs at a holder.
func (d *document) heldBy(name string) bool { return d.State == Running && d.Holder == name }

// New returns the queue with the tasks of its store: waiting tasks wait again, and tasks that ran in a
// process that is gone fail with ReasonInterrupted, or wait again if they are idempotent.
func New(o Options) (*Queue, error) {
	shared := o.Group != ""
	if shared {
		if err := store.CheckKey(store.TaskKeys+o.Group, false); err != nil || strings.Contains(o.Group, ".") || o.Group == "gw" || o.Group == "gwid" {
			return nil, fmt.Errorf("the group of a shared queue has letters, digits, - and _ in its name, and is not gw or gwid, where a gateway keeps its tasks: not %.40q", o.Group)
		}
	} else {
		o.Group = own
	}
	if o.RetainCount == 0 {
		o.RetainCount = 1000
	}
	if o.RetainBytes == 0 {
		o.RetainBytes = 64 << 20
	}
	orDefault(&o.RetainAge, time.Hour)
	q := &Queue{Places: NewPlaces(o.PlaceOptions), o: o, shared: shared, wake: make(chan struct{}, 1), tasks: map[string]*task{}}
	var err error
	if q.stop, err = o.Docs.Follow(q.key(""), q.follow); err != nil {
		return nil, fmt.Errorf("follow the tasks: %w", err)
	}
	q.mu.Lock()
	q.all = !shared
	q.mu.Unlock()
	if shared {
		q.lease = lease.Hold(lease.Options{
			Docs: o.Docs, Prefix: store.HolderKeys + o.Group + ".", Name: func(context.Context) string { return newHolder() }, Value: func(string) []byte { return []byte(`{"v":1}`) },
			Held: q.look, Lost: q.fenced, Logger: q.log,
		})
	} else {
		q.lease = lease.Sole(newHolder())
	}
	q.open()
	q.loops.Go(q.loop)
	return q, nil
}

func newHolder() string { return rand.Text()[:8] }

func (q *Queue) key(id string) string { return store.TaskKeys + q.o.Group + "." + id }

// look asks the loop to look for tasks whose holder is gone, and to open the line then.
func (q *Queue) look() {
	q.mu.Lock()
	q.due = true
	q.mu.Unlock()
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// follow learns the state of a task from the store.
func (q *Queue) follow(d store.Doc) {
	id := strings.TrimPrefix(d.Key, q.key(""))
	q.mu.Lock()
	t := q.tasks[id]
	known := t != nil && d.Rev != 0 && d.Rev <= t.rev
	if d.Rev == 0 && t != nil && t.rev != 0 {
		q.forget(t) // expired, or removed by an operator if it has not ended
	}
	q.mu.Unlock()
	if known || d.Rev == 0 {
		return
	}
	rec, err := read(d)
	if err != nil {
		q.log.Error("a task in the store cannot be read", "key", d.Key, "err", err)
		return
	}
	q.saw(d.Rev, rec)
}

func read(d store.Doc) (rec document, err error) {
	err = json.Unmarshal(d.Value, &rec)
	if err == nil && rec.ID == "" {
		err = errors.New("it has no id")
	}
	return rec, err
}

// forget removes a task that is no longer in the store, or will not be. The caller holds mu.
func (q *Queue) forget(t *task) {
	t.over.Do(func() { close(t.ended) })
	delete(q.tasks, t.rec.ID)
	q.leave(&t.line)
	if i := slices.Index(q.ended, t); i >= 0 {
		q.ended = slices.Delete(q.ended, i, i+1)
		q.bytes -= t.size
	}
}

// lose ends a run whose end is not written.
func (r *run) lose(cause error) {
	if r.lost == nil {
		r.lost = cause
		r.cancel(cause)
	}
}

// newTask makes the memory of a task. The caller holds mu.
func (q *Queue) newTask(rec document) *task {
	t := &task{owner: rec.Owner, rec: rec, ended: make(chan struct{})}
	t.line = waiter{priority: rec.Priority, task: true, start: func() { q.running.Go(func() { q.start(t) }) }}
	q.tasks[rec.ID] = t
	return t
}

// saw remembers the newest state of a task.
func (q *Queue) saw(rev uint64, rec document) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tasks[rec.ID]
	if t == nil && q.all {
		return // it was over a bound
	}
	if t == nil {
		t = q.newTask(rec)
	}
	if rev <= t.rev {
		return
	}
	ended := t.rec.State.Final() && t.rev != 0
	size := rec.size()
	rec.Payload = nil
	if rec.Result != nil {
		rec.Result = json.RawMessage("{}") // says that there is one
	}
	t.rev, t.rec, t.end = rev, rec, nil
	if r := t.run; r != nil && r.claimed && !rec.heldBy(r.holder) {
		cause := ErrInterrupted
		if rec.State == Cancelled {
			cause = ErrCancelled
		}
		r.lose(cause)
	}
	switch {
	case rec.State == Pending && t.run == nil:
		q.join(&t.line)
	case rec.State != Pending:
		q.leave(&t.line)
	}
	if rec.State.Final() && !ended {
		t.over.Do(func() { close(t.ended) })
		t.size = size
		q.ended = append(q.ended, t)
		q.bytes += t.size
		q.bound()
	}
}

// bound forgets the oldest tasks that are over a bound. The caller holds mu.
func (q *Queue) bound() {
	if q.shared {
		return
	}
	for n := len(q.ended); n > 0; n-- {
		if over := q.o.RetainCount > 0 && n > q.o.RetainCount || q.o.RetainBytes > 0 && q.bytes > q.o.RetainBytes && n > 1; !over {
			return
		}
		t := q.ended[0]
		q.over = append(q.over, store.Doc{Key: q.key(t.rec.ID), Rev: t.rev})
		q.forget(t)
		q.signal()
	}
}

// change rewrites the record of a task. f changes the newest record. It returns false if nothing is to be
// done, also because an earlier attempt was applied. change returns the record as it is stored at the end.
func (q *Queue) change(ctx context.Context, id string, f func(*document) bool) (rec document, err error) {
	return q.changeSeen(ctx, id, document{}, f)
}

// changeSeen is change with a record that may be the newest, which saves reading it.
func (q *Queue) changeSeen(ctx context.Context, id string, seen document, f func(*document) bool) (rec document, err error) {
	doc, err := store.ChangeSeen(ctx, q.o.Docs, store.Doc{Key: q.key(id), Rev: seen.rev}, func(d store.Doc) ([]byte, time.Duration, error) {
		var err error
		switch {
		case d.Rev == 0:
			return nil, 0, ErrNotFound
		case d.Rev == seen.rev:
			rec = seen
		default:
			if rec, err = read(d); err != nil {
				return nil, 0, err
			}
		}
		if !f(&rec) {
			return nil, 0, store.ErrKeep
		}
		value, ttl, err := rec.encode()
		return value, ttl, err
	})
	if rec.rev = doc.Rev; err == nil {
		q.saw(doc.Rev, rec)
	}
	return rec, err
}

// encode returns the document and its life. A task that has ended expires.
func (d *document) encode() (value []byte, ttl time.Duration, err error) {
	d.V = 1
	if value, err = json.Marshal(d); err == nil && d.State.Final() {
		ttl = d.Retain
	}
	return value, ttl, err
}

// Submit puts a task into the line and returns when the store has it. The error is a *FullError,
// ErrClosed, or the error of the store, with ErrStore.
func (q *Queue) Submit(s Spec) (Task, error) {
	now := time.Now()
	rec := document{record: record{
		ID: rand.Text(), Owner: s.Owner, Name: s.Name, State: Pending, Priority: s.Priority, Timeout: cmp.Or(s.Timeout, q.Places.o.Timeout), Retain: s.Retain,
		Created: now, Updated: now, Payload: s.Payload, Idempotent: s.Idempotent,
	}}
	if rec.Retain <= 0 || rec.Retain > q.o.RetainAge {
		rec.Retain = q.o.RetainAge
	}
	q.mu.Lock()
	t := q.newTask(rec)
	t.rec.Payload = nil
	if err := q.reserve(&t.line); err != nil {
		delete(q.tasks, rec.ID)
		q.mu.Unlock()
		return Task{}, err
	}
	rec.Seq = t.line.order
	q.mu.Unlock()
	rev, err := q.create(rec)
	if err != nil {
		q.mu.Lock()
		q.forget(t)
		q.mu.Unlock()
		if errors.Is(err, store.ErrFull) && len(rec.Payload) > store.MaxValue/2 {
			return Task{}, fmt.Errorf("the arguments of a task in a shared queue have at most %d bytes, with all that weir adds", store.MaxValue)
		}
		return Task{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	q.saw(rev, rec)
	return rec.task(), nil
}

// create writes a new task.
func (q *Queue) create(rec document) (rev uint64, err error) {
	ctx, cancel := context.WithTimeout(q.ctx, changeLimit)
	defer cancel()
	value, _, err := rec.encode()
	if err != nil {
		return 0, err
	}
	rev, err = q.o.Docs.Set(ctx, q.key(rec.ID), value, 0, 0)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConflict) {
		// The write may have been made: the id is new, so a document with it is this one.
		if doc, failed := q.o.Docs.Get(ctx, q.key(rec.ID)); failed == nil && doc.Rev != 0 {
			return doc.Rev, nil
		}
	}
	return rev, err
}

// Close takes this process out of the queue: it accepts and starts no more tasks, and waiting callers of
// Do get ErrClosed. Running tasks may finish until ctx ends; then they are interrupted. Waiting tasks
// stay in the store. Close returns when all tasks have ended, with ctx's error if it had to interrupt any.
func (q *Queue) Close(ctx context.Context) (err error) {
	q.once.Do(func() {
		err = q.Places.Close(ctx)
		q.loops.Wait()
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.RenewEvery)
		defer cancel()
		q.sweep(leave)
		q.stop()
		q.lease.Close(leave)
		if q.o.Close != nil {
			q.o.Close()
		}
	})
	return err
}
