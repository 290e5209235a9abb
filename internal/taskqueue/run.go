package taskqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// attempt is one call of Run.
type attempt struct {
	done   chan struct{} // closed when Run has returned
	result json.RawMessage
	err    error

	// The three are guarded by Queue.mu.
	returned bool // Run has returned
	late     bool // the task is over, but its place is not yet free
	given    bool // the task is over, and its place was given to the next
}

// execute runs an item that has a place to run, gives the place back and
// returns the outcome.
func (q *Queue) execute(parent context.Context, it *item) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// Closing the Queue ends what runs.
	stop := context.AfterFunc(q.ctx, func() { cancel(context.Cause(q.ctx)) })
	defer stop()

	q.mu.Lock()
	switch {
	case q.closed && it.ready != nil: // Close took it out of the line
		it.rec.State, it.rec.Reason, it.rec.Ended = Cancelled, ReasonCancelled, time.Now()
		q.observe(eventEnded, it)
		q.release()
		q.mu.Unlock()
		return nil, ErrClosed
	case it.settled: // cancelled on its way here
		q.release()
		q.mu.Unlock()
		return nil, ErrCancelled
	}
	it.rec.State, it.rec.Started = Running, time.Now()
	it.rec.Updated = it.rec.Started
	it.cancel = cancel
	payload := it.rec.Payload
	it.rec.Starts++
	if !it.rec.Idempotent || !it.submitted {
		it.rec.Payload = nil // no longer needed
	}
	q.observe(eventStarted, it)
	q.mu.Unlock()

	if it.submitted {
		// Save the start first, so that a crash cannot make the task run twice.
		if err := q.save(it); err != nil {
			return nil, q.finish(it, nil, nil, fmt.Errorf("the start of the task could not be saved: %w", err))
		}
	}
	if limit := it.rec.Timeout; limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(&TimeoutError{Limit: limit}) })
		defer timer.Stop()
	}
	job := &Job{ID: it.rec.ID, Owner: it.rec.Owner, Name: it.rec.Name, Payload: payload, Value: it.value, Writer: &it.log}
	a := &attempt{done: make(chan struct{})}
	q.mu.Lock()
	q.running.Add(1)
	q.mu.Unlock()
	go q.call(ctx, job, a)
	select {
	case <-a.done:
	case <-ctx.Done():
		grace := time.NewTimer(q.o.Grace)
		defer grace.Stop()
		select {
		case <-a.done:
		case <-grace.C:
			q.log.Error("a task goes on although it was ended", "task", it.rec.Name, "id", it.rec.ID, "reason", context.Cause(ctx), "grace", q.o.Grace)
			return nil, q.finish(it, a, nil, context.Cause(ctx))
		}
	}
	err := a.err
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the cause says more than its symptom
	}
	return a.result, q.finish(it, a, a.result, err)
}

// call calls Run. A panic of it is an error of this task alone.
func (q *Queue) call(ctx context.Context, job *Job, a *attempt) {
	defer q.running.Done()
	defer func() {
		if p := recover(); p != nil {
			q.log.Error("a task panicked", "task", job.Name, "id", job.ID, "panic", p, "stack", string(debug.Stack()))
			a.result, a.err = nil, errors.New("the task panicked; the log has the details")
		}
		q.mu.Lock()
		a.returned = true
		switch {
		case a.given:
			q.abandoned--
		case a.late:
			q.release()
		}
		q.mu.Unlock()
		close(a.done)
	}()
	a.result, a.err = q.o.Run(ctx, job)
}

// finish decides how an item ended, saves that and gives its place to the next. It returns err, the
// reason of an earlier end, or the error of saving the result.
func (q *Queue) finish(it *item, a *attempt, result json.RawMessage, err error) error {
	now := time.Now()
	q.mu.Lock()
	it.cancel = nil
	if !it.settled {
		again := it.rec // for the next process
		requeue := it.submitted && outcomeOf(err).reason == ReasonInterrupted && again.again()
		it.settle(result, err, now)
		if it.submitted {
			q.mu.Unlock()
			// Save the end before it can be read.
			var unsaved error
			if requeue {
				unsaved = q.store.Save(again)
			} else {
				unsaved = q.saveEnd(it)
			}
			q.mu.Lock()
			if unsaved != nil && it.rec.Result != nil {
				err = it.lose(unsaved)
			}
		}
		q.conclude(it)
	} else if it.submitted {
		err = ErrCancelled
	}
	switch {
	case a == nil || a.returned:
		q.release()
	case q.abandoned < q.concurrency:
		a.given = true
		q.abandoned++
		q.release()
	default:
		a.late = true
	}
	gone := q.expire(now)
	q.mu.Unlock()
	q.forget(gone)
	return err
}

// outcome is a final state that is not visible yet.
type outcome struct {
	state  State
	reason Reason
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return outcome{Completed, ""}
	case errors.Is(err, ErrCancelled), errors.Is(err, context.Canceled):
		return outcome{Cancelled, ReasonCancelled}
	case errors.Is(err, errTimeout):
		return outcome{Failed, ReasonTimeout}
	case errors.Is(err, ErrInterrupted), errors.Is(err, ErrClosed):
		return outcome{Failed, ReasonInterrupted}
	}
	return outcome{Failed, ReasonError}
}

// settle writes the end into the record. It is called under Queue.mu, once.
func (it *item) settle(result json.RawMessage, err error, now time.Time) {
	it.readLog()
	end := outcomeOf(err)
	it.settled = true
	it.rec.State, it.rec.Reason, it.rec.Result, it.rec.Payload = end.state, end.reason, result, nil
	it.rec.Ended, it.rec.Updated = now, now
	if err != nil {
		it.rec.Error = err.Error()
	}
}

// conclude makes the end known. It is called under mu.
func (q *Queue) conclude(it *item) {
	if it.submitted {
		q.keep(it)
	}
	close(it.done)
	q.observe(eventEnded, it)
}

// save saves the item as it is now. Saves of one item do not overtake each
// other.
func (q *Queue) save(it *item) error {
	it.saves.Lock()
	defer it.saves.Unlock()
	q.mu.Lock()
	rec := it.rec
	q.mu.Unlock()
	return q.store.Save(rec)
}

// lose replaces an end with a result by a failure, because the result could not be saved. Otherwise
// an agent would see "completed" first, and after a restart an interrupted task without a result.
// The caller holds mu.
func (it *item) lose(unsaved error) error {
	err := fmt.Errorf("the tool ran, but the end of the task could not be saved, so its result is lost: %w", unsaved)
	it.rec.State, it.rec.Reason, it.rec.Result, it.rec.Error = Failed, ReasonUnsaved, nil, err.Error()
	return err
}

func (q *Queue) saveEnd(it *item) error {
	err := q.save(it)
	if err != nil {
		q.log.Error("the end of a task could not be saved; after a restart it counts as interrupted; make room in the folder of the tasks", "task", it.rec.Name, "id", it.rec.ID, "err", err)
	}
	return err
}
