package queue

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"time"
)

// attempt is one call of Run.
type attempt struct {
	done   chan struct{} // closed when Run has returned
	result json.RawMessage
	err    error

	// The three are guarded by Places.mu.
	returned bool // Run has returned
	late     bool // the task is over, but its place is not yet free
	given    bool // the task is over, and its place was given to the next
}

// run runs a job that has a place, for a limited time (0 is without bound), and gives the place back.
func (p *Places) run(parent context.Context, job *Job, limit time.Duration) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// Closing the Places ends the running tasks.
	stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	defer stop()
	if limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(&TimeoutError{Limit: limit}) })
		defer timer.Stop()
	}
	a := &attempt{done: make(chan struct{})}
	p.mu.Lock()
	p.running.Add(1)
	p.mu.Unlock()
	go p.call(ctx, job, a)
	defer p.leavePlace(a)
	select {
	case <-a.done:
	case <-ctx.Done():
		grace := time.NewTimer(p.o.Grace)
		defer grace.Stop()
		select {
		case <-a.done:
		case <-grace.C:
			p.log.Error("a task goes on although it was ended", "task", job.Name, "id", job.ID, "reason", context.Cause(ctx), "grace", p.o.Grace)
			return nil, context.Cause(ctx)
		}
	}
	if a.err != nil && ctx.Err() != nil {
		return a.result, context.Cause(ctx) // the cause says more than its symptom
	}
	return a.result, a.err
}

// call calls Run. A panic in Run is an error of this task only.
func (p *Places) call(ctx context.Context, job *Job, a *attempt) {
	defer p.running.Done()
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("a task panicked", "task", job.Name, "id", job.ID, "panic", v, "stack", string(debug.Stack()))
			a.result, a.err = nil, errors.New("the task panicked; the log has the details")
		}
		p.mu.Lock()
		a.returned = true
		switch {
		case a.given:
			p.abandoned--
		case a.late:
			p.release()
		}
		p.mu.Unlock()
		close(a.done)
	}()
	a.result, a.err = p.o.Run(ctx, job)
}

// leavePlace gives the place of a task that is over to the next, also if Run has not returned.
func (p *Places) leavePlace(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.returned:
		p.release()
	case p.abandoned < p.concurrency:
		a.given = true
		p.abandoned++
		p.release()
	default:
		a.late = true
	}
}

// outcome is how a task ends.
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
