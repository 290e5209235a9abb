package taskqueue

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// keep counts an ended item among those that can still be read. It is called
// under mu.
func (q *Queue) keep(it *item) {
	q.ended = append(q.ended, it)
	q.endedBytes += it.rec.size()
}

// expire takes ended items that are over a bound out of the Queue and returns
// their ids, for forget. It is called under mu.
func (q *Queue) expire(now time.Time) (gone []string) {
	n := 0
	for n < len(q.ended) {
		over := len(q.ended)-n > q.o.RetainCount || q.endedBytes > q.o.RetainBytes && len(q.ended)-n > 1
		it := q.ended[n]
		if !over && now.Sub(it.rec.Ended) < q.o.RetainAge {
			break
		}
		gone = append(gone, q.drop(it))
		n++
	}
	q.ended = slices.Delete(q.ended, 0, n)
	return gone
}

func (q *Queue) drop(it *item) string {
	q.endedBytes -= it.rec.size()
	delete(q.items, it.rec.ID)
	return it.rec.ID
}

// forget removes tasks from the Store. It is called without mu.
func (q *Queue) forget(ids []string) {
	if len(ids) == 0 {
		return
	}
	if err := q.store.Remove(ids...); err != nil {
		q.log.Error("tasks could not be removed from the store", "tasks", len(ids), "err", err)
	}
}

// find returns an owner's item. It returns ErrNotFound for a task of another owner. The caller
// holds mu.
func (q *Queue) find(owner, id string, now time.Time) (*item, error) {
	it := q.items[id]
	if it == nil || it.rec.Owner != owner {
		return nil, ErrNotFound
	}
	if it.final() && now.Sub(it.rec.Ended) >= it.rec.Retain {
		return nil, ErrNotFound // expired; the common limits remove it later
	}
	return it, nil
}

// final reports whether the item's end can be read.
func (it *item) final() bool {
	select {
	case <-it.done:
		return true
	default:
		return false
	}
}

// view returns the item's public state: an end that is not saved yet is not visible. The caller
// holds mu.
func (it *item) view() Task {
	t := it.task()
	if t.State.Final() && !it.final() {
		t.State, t.Reason, t.Error, t.Result, t.Ended = Running, "", "", nil, time.Time{}
	}
	return t
}

// Get returns a task of an owner's, or ErrNotFound.
func (q *Queue) Get(owner, id string) (Task, error) {
	now := time.Now()
	q.mu.Lock()
	it, err := q.find(owner, id, now)
	var t Task
	if err == nil {
		t = it.view()
	}
	gone := q.expire(now)
	q.mu.Unlock()
	q.forget(gone)
	return t, err
}

// Wait waits until a task of an owner ends and returns it, or returns ErrNotFound. If ctx ends
// first, it returns the current task and ctx's error.
func (q *Queue) Wait(ctx context.Context, owner, id string) (Task, error) {
	q.mu.Lock()
	it, err := q.find(owner, id, time.Now())
	q.mu.Unlock()
	if err != nil {
		return Task{}, err
	}
	select {
	case <-it.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return it.view(), err
}

// List returns an owner's tasks in order of arrival: at most limit tasks after the one with id
// after ("" for the first). more reports that there are further ones. An unknown id is ErrNotFound.
func (q *Queue) List(owner, after string, limit int) (tasks []Task, more bool, err error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	var from int64
	if after != "" {
		it, err := q.find(owner, after, now)
		if err != nil {
			return nil, false, err
		}
		from = it.rec.Seq
	}
	var own []*item
	for id, it := range q.items {
		if it.rec.Seq > from {
			if _, err := q.find(owner, id, now); err == nil {
				own = append(own, it)
			}
		}
	}
	slices.SortFunc(own, func(a, b *item) int { return cmp.Compare(a.rec.Seq, b.rec.Seq) })
	if len(own) > limit {
		own, more = own[:limit], true
	}
	for _, it := range own {
		tasks = append(tasks, it.view())
	}
	return tasks, more, nil
}

// Cancel cancels a task of an owner, or returns ErrNotFound. A waiting task leaves the queue; the
// context of a running task ends. When Cancel returns, the task is cancelled, unless it had ended
// before; the Task tells which.
func (q *Queue) Cancel(owner, id string) (Task, error) {
	now := time.Now()
	q.mu.Lock()
	it, err := q.find(owner, id, now)
	if err != nil {
		q.mu.Unlock()
		return Task{}, err
	}
	if it.settled {
		q.mu.Unlock()
		<-it.done // at most as long as the Store takes to save it
		q.mu.Lock()
		defer q.mu.Unlock()
		return it.view(), nil
	}
	if it.waiting {
		q.wait.remove(it)
	}
	it.settle(nil, ErrCancelled, now)
	if it.cancel != nil {
		it.cancel(ErrCancelled)
	}
	q.mu.Unlock()
	_ = q.saveEnd(it) // logged; it is cancelled for as long as this process lives
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conclude(it)
	return it.view(), nil
}
