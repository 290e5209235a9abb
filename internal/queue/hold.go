package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/lease"
	"github.com/weir-mcp/weir/internal/store"
)

// loop deletes tasks that are over a bound, and ends tasks whose holder is gone. In a shared queue it
// also publishes the logs of running tasks to the other processes.
func (q *Queue) loop() {
	var tick <-chan time.Time
	if q.shared {
		t := time.NewTicker(lease.RenewEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-q.ctx.Done():
			return
		case <-q.wake:
			q.sweep(q.ctx)
			q.mu.Lock()
			due := q.due
			q.due = false
			q.mu.Unlock()
			if due {
				q.open()
			}
		case <-tick:
			q.logs()
			q.reap()
		}
	}
}

// open opens the line, if this process holds a lease, after it has ended the tasks whose holder is gone.
func (q *Queue) open() {
	if q.lease.Name() != "" {
		q.reap()
		q.let(q.lease.Name() != "")
	}
}

// sweep deletes the documents of tasks that are over a bound.
func (q *Queue) sweep(ctx context.Context) {
	q.mu.Lock()
	over := q.over
	q.over = nil
	q.mu.Unlock()
	for i, d := range over {
		err := q.o.Docs.Delete(ctx, d.Key, d.Rev)
		if ctx.Err() != nil {
			q.mu.Lock()
			q.over = append(q.over, over[i:]...)
			q.mu.Unlock()
			return
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			q.log.Error("a task over the bound could not be removed from the store, where it expires", "key", d.Key, "err", err)
		}
	}
}

// fenced ends the tasks of this process, because others take it for gone.
func (q *Queue) fenced(name string) {
	q.let(false)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.tasks {
		if t.run != nil && t.run.holder == name {
			t.run.lose(ErrInterrupted)
		}
	}
}

// reap ends the tasks whose holder is gone, or puts them back.
func (q *Queue) reap() {
	q.mu.Lock()
	orphans := map[string][]string{}
	for id, t := range q.tasks {
		if t.rec.State == Running && t.run == nil {
			orphans[t.rec.Holder] = append(orphans[t.rec.Holder], id)
		}
	}
	q.mu.Unlock()
	for holder, ids := range orphans {
		// A task of this process without a run was claimed by a write that seemed to fail. It has not started.
		began := holder != q.lease.Name()
		if gone, err := q.lease.Gone(q.ctx, holder); began && (err != nil || !gone) {
			continue
		}
		for _, id := range ids {
			q.handBack(id, holder, began)
		}
	}
}

// handBack takes a task from a holder that does not continue it. If began is set, the task may have run.
func (q *Queue) handBack(id, holder string, began bool) {
	_, err := q.change(q.ctx, id, func(d *document) bool {
		switch {
		case !d.heldBy(holder):
			return false
		case !began:
			d.State, d.Started, d.Starts = Pending, time.Time{}, d.Starts-1
		case !d.again():
			d.end(outcome{Failed, ReasonInterrupted}, nil, ErrInterrupted)
		}
		d.Holder = ""
		return true
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		q.log.Error("a task could not be handed back", "id", id, "err", err)
	}
}

// logs writes the log tails of running tasks that have grown, so that other processes can tell them.
func (q *Queue) logs() {
	q.mu.Lock()
	grown := map[string]*run{}
	for id, t := range q.tasks {
		if t.run != nil && t.run.lost == nil && t.rec.State == Running {
			if _, seq, _, _ := t.run.log.read(); seq > t.rec.LogSeq {
				grown[id] = t.run
			}
		}
	}
	q.mu.Unlock()
	for id, r := range grown {
		_, _ = q.change(q.ctx, id, func(d *document) bool { return d.heldBy(r.holder) && r.tell(&d.record) })
	}
}

// tell brings the log's tail into a record.
func (r *run) tell(rec *record) (changed bool) {
	text, seq, cut, last := r.log.read()
	if seq <= rec.LogSeq {
		return false
	}
	rec.logEnd, rec.Updated = logEnd{text, seq, cut}, last
	return true
}

// again puts an interrupted task back into the line, if it may be started once more.
func (r *record) again() bool {
	if !r.Idempotent || r.Starts >= maxStarts {
		return false
	}
	r.State, r.Started, r.Updated = Pending, time.Time{}, time.Now()
	r.logEnd = logEnd{}
	return true
}

// start claims a task that has a place, and runs it.
func (q *Queue) start(t *task) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	r := &run{cancel: cancel}
	r.log.max = q.Places.o.LogBytes
	q.mu.Lock()
	r.holder = q.lease.Name() // under the lock: the end of this lease finds the run
	t.run = r
	id := t.rec.ID
	q.mu.Unlock()
	if rec, ok := q.claim(t, id, r); ok {
		job := &Job{ID: id, Owner: rec.Owner, Name: rec.Name, Payload: rec.Payload, tail: &r.log}
		result, err := q.Places.run(ctx, job, q.limit(rec.Timeout))
		q.finish(t, rec, r, result, err)
	} else {
		q.giveBack()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.run = nil
	if q.tasks[id] == t && t.rec.State == Pending {
		q.join(&t.line)
	}
}

// claim makes a waiting task this process's. ok is false if another process was faster, if the task is
// cancelled, or if the store does not answer.
func (q *Queue) claim(t *task, id string, r *run) (rec document, ok bool) {
	ctx, cancel := context.WithTimeout(q.ctx, claimLimit)
	defer cancel()
	err := error(store.ErrUnavailable) // without a lease, others take the task for interrupted
	if r.holder != "" {
		rec, err = q.change(ctx, id, func(d *document) bool {
			if d.State != Pending {
				return false
			}
			d.State, d.Holder, d.Started = Running, r.holder, time.Now()
			d.Updated = d.Started
			d.Starts++
			return true
		})
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		q.let(false) // calls need the places
		time.AfterFunc(claimLimit, q.look)
		return rec, false
	}
	wrote := err == nil && rec.heldBy(r.holder)
	q.mu.Lock()
	// The state that the store has told meanwhile is newer: the task may be cancelled already.
	r.claimed = wrote && r.lost == nil && t.rec.heldBy(r.holder) && q.ctx.Err() == nil
	ok = r.claimed
	q.mu.Unlock()
	if wrote && !ok {
		q.handBack(id, r.holder, false)
	}
	return rec, ok
}

// finish writes the end of a task until the store has it, or the task is no longer this process's.
func (q *Queue) finish(t *task, claimed document, r *run, result json.RawMessage, err error) {
	id := claimed.ID
	end, deadline := outcomeOf(err), time.Now().Add(saveLimit)
	for {
		q.mu.Lock()
		lost := r.lost != nil
		q.mu.Unlock()
		if lost || q.lease.Name() != r.holder {
			return // its document says how it ended, or others say so
		}
		ctx, cancel := context.WithTimeout(context.Background(), max(time.Until(deadline), lease.RenewEvery))
		_, failed := q.changeSeen(ctx, id, claimed, func(d *document) bool {
			switch {
			case !d.heldBy(r.holder):
				return false
			case end.reason == ReasonInterrupted && d.again():
				d.Holder = ""
				return true
			}
			r.tell(&d.record)
			d.end(end, result, err)
			return true
		})
		cancel()
		if failed == nil || errors.Is(failed, ErrNotFound) {
			return
		}
		late := !time.Now().Before(deadline)
		refused := !errors.Is(failed, store.ErrUnavailable) && !errors.Is(failed, store.ErrConflict) && !errors.Is(failed, context.DeadlineExceeded)
		if lost := result != nil && (late || refused); lost {
			err = fmt.Errorf("the tool ran, but its result of %d bytes could not be saved, and is lost: %w", len(result), failed)
			end, result = outcome{Failed, ReasonUnsaved}, nil
			q.log.Error("the result of a task could not be saved; make room in the store of the tasks", "id", id, "err", failed)
			if refused {
				continue
			}
		}
		if late || refused {
			q.show(t, r, end, err)
		}
		select {
		case <-q.ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// show makes an end known that the store does not take. After a restart the task counts as interrupted.
func (q *Queue) show(t *task, r *run, end outcome, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.end != nil || t.rec.State != Running {
		return
	}
	d := t.rec
	r.tell(&d.record)
	d.end(end, nil, err)
	t.end = &d.record
	t.over.Do(func() { close(t.ended) })
}
