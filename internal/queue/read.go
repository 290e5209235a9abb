package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Get returns a task of an owner's, or ErrNotFound.
func (q *Queue) Get(owner, id string) (Task, error) {
	if store.CheckKey(q.key(id), false) != nil || strings.Contains(id, ".") {
		return Task{}, ErrNotFound
	}
	q.mu.Lock()
	if t := q.tasks[id]; t != nil && t.end != nil && t.rec.Owner == owner {
		defer q.mu.Unlock()
		return t.end.task(), nil
	}
	over := q.all && q.tasks[id] == nil
	q.mu.Unlock()
	if over {
		return Task{}, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(context.Background(), changeLimit)
	defer cancel()
	doc, err := q.o.Docs.Get(ctx, q.key(id))
	if err != nil {
		return Task{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	if doc.Rev == 0 {
		return Task{}, ErrNotFound
	}
	rec, err := read(doc)
	if err != nil || rec.Owner != owner || rec.expired(time.Now()) {
		return Task{}, ErrNotFound
	}
	q.saw(doc.Rev, rec)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.told(rec).task(), nil
}

// expired reports whether a task can no longer be read. Its document may outlive that by a moment.
func (r *record) expired(now time.Time) bool {
	return r.State.Final() && now.Sub(r.Ended) >= r.Retain
}

// told returns a record with the log that a run here has written since. The caller holds mu.
func (q *Queue) told(d document) *record {
	if t := q.tasks[d.ID]; t != nil && t.run != nil && d.State == Running {
		t.run.tell(&d.record)
	}
	return &d.record
}

// Wait waits until a task of an owner ends and returns it, or returns ErrNotFound. If ctx ends
// first, it returns the current task and ctx's error.
func (q *Queue) Wait(ctx context.Context, owner, id string) (now Task, err error) {
	q.mu.Lock()
	t := q.tasks[id]
	q.mu.Unlock()
	if t == nil { // of another process, perhaps, and the store has not told of it yet
		now, err := q.Get(owner, id)
		if err != nil || now.State.Final() {
			return now, err
		}
		q.mu.Lock()
		t = q.tasks[id]
		q.mu.Unlock()
	}
	if t != nil && t.owner == owner {
		select {
		case <-t.ended:
		case <-ctx.Done():
			err = ctx.Err()
		case <-q.ctx.Done():
			err = ErrClosed
		}
	}
	now, failed := q.Get(owner, id)
	return now, errors.Join(err, failed)
}

// List returns an owner's tasks in order of arrival, without results: at most limit tasks after the one
// with id after ("" for the first). more reports that there are further ones. An unknown id is
// ErrNotFound.
func (q *Queue) List(owner, after string, limit int) (tasks []Task, more bool, err error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	var own []*task
	for _, t := range q.tasks {
		if t.rec.Owner == owner && t.rev != 0 && !t.rec.expired(now) {
			own = append(own, t)
		}
	}
	slices.SortFunc(own, func(a, b *task) int {
		return cmp.Or(a.rec.Created.Compare(b.rec.Created), cmp.Compare(a.rec.Seq, b.rec.Seq), strings.Compare(a.rec.ID, b.rec.ID))
	})
	if after != "" {
		at := slices.IndexFunc(own, func(t *task) bool { return t.rec.ID == after })
		if at < 0 {
			return nil, false, ErrNotFound
		}
		own = own[at+1:]
	}
	if len(own) > limit {
		own, more = own[:limit], true
	}
	for _, t := range own {
		rec := t.end
		if rec == nil {
			rec = q.told(t.rec)
		}
		tasks = append(tasks, rec.task())
	}
	return tasks, more, nil
}

// Cancel cancels a task of an owner, in whichever process it is, or returns ErrNotFound. When Cancel
// returns, the task is cancelled, unless it had ended before; the Task tells which. A process that runs
// it ends it within milliseconds. A task that runs here also ends if the store fails.
func (q *Queue) Cancel(owner, id string) (Task, error) {
	if now, err := q.Get(owner, id); err != nil || now.State.Final() {
		return now, err
	}
	rec, err := q.change(context.Background(), id, func(d *document) bool {
		if d.State.Final() {
			return false
		}
		if t := q.here(id); t != nil {
			t.tell(&d.record)
		}
		d.end(outcome{Cancelled, ReasonCancelled}, nil, ErrCancelled)
		return true
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return Task{}, err
	case err != nil:
		if r := q.here(id); r != nil {
			r.cancel(ErrCancelled)
		}
		return Task{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return rec.task(), nil
}

// here returns the run of a task in this process, nil if there is none.
func (q *Queue) here(id string) *run {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.tasks[id]; t != nil {
		return t.run
	}
	return nil
}

// end writes the end into the record.
func (d *document) end(end outcome, result json.RawMessage, err error) {
	d.State, d.Reason, d.Result, d.Payload, d.Holder = end.state, end.reason, result, nil, ""
	d.Ended = time.Now()
	d.Updated = d.Ended
	d.Error = ""
	if err != nil {
		d.Error = err.Error()
	}
}
