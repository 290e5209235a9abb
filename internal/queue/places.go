package queue

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

// Job is a task as Run sees it. Write appends to the task's log; it may be called concurrently
// until Run returns.
type Job struct {
	ID      string // "" for a call of Do
	Owner   string
	Name    string
	Payload json.RawMessage
	Value   any // Spec.Value of a call of Do
	*tail
}

// RunFunc executes a task. ctx ends when the task is cancelled, exceeds its time limit, or the
// Queue is closed; RunFunc should return soon after. A result that is returned together with an
// error is also stored. RunFunc is called concurrently.
type RunFunc func(ctx context.Context, job *Job) (json.RawMessage, error)

// PlaceOptions configures a Queue or Places. Run must be set; other zero values stand for the defaults
// named.
type PlaceOptions struct {
	Run RunFunc
	// Concurrency is how many tasks run at once: 1.
	Concurrency int
	// Max is how many tasks may wait: 1,024.
	Max int
	// Timeout bounds the execution of a task that names no bound: 30 seconds.
	Timeout time.Duration
	// LogBytes bounds the log tail of a task: 16 KB.
	LogBytes int
	// Grace is the time that Run has to return after its context has ended: 2 seconds. After that
	// the task is over even if Run is still running. Its place goes to the next task, unless
	// Concurrency places have been given away like that already.
	Grace time.Duration
	// Logger receives failures that are not a task's own; nil discards them.
	Logger *slog.Logger
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Places is a bounded number of places to run, and the line of those who wait for one. All methods
// are safe for concurrent use.
type Places struct {
	o   PlaceOptions
	log *slog.Logger

	running  sync.WaitGroup  // goroutines of the Places; Add under mu
	ctx      context.Context // ends when Close stops waiting
	shutdown context.CancelCauseFunc
	closing  chan struct{} // closed by Close

	mu          sync.Mutex // guards below
	concurrency int
	max         int
	line        line
	coming      int // waiters for which there is room, and which are not in the line yet
	busy        int // occupied places
	abandoned   int // running calls of Run whose place was given away
	arrived     int64
	tasks       bool // tasks leave the line
	closed      bool
}

// NewPlaces returns Places for calls.
func NewPlaces(o PlaceOptions) *Places {
	orDefault(&o.Concurrency, 1)
	orDefault(&o.Max, 1024)
	orDefault(&o.Timeout, 30*time.Second)
	orDefault(&o.LogBytes, 16<<10)
	orDefault(&o.Grace, 2*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Places{o: o, log: o.Logger, closing: make(chan struct{}), concurrency: o.Concurrency, max: o.Max}
	p.ctx, p.shutdown = context.WithCancelCause(context.Background())
	return p
}

// admit checks that there is room for one more. The caller holds mu.
func (p *Places) admit() error {
	if p.closed {
		return ErrClosed
	}
	if p.line.n+p.coming >= p.max+max(0, p.concurrency-p.busy) {
		return &FullError{p.status()}
	}
	return nil
}

// reserve keeps room for a task that is being saved, until it joins or leaves the line.
func (p *Places) reserve(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.admit()
	if err == nil {
		w.coming = true
		p.coming++
		p.arrived++
		w.order = p.arrived
	}
	return err
}

// join puts a task into the line, in the place that it had before.
func (p *Places) join(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrive(w)
	if p.closed || w.waiting {
		return
	}
	if w.order == 0 {
		p.arrived++
		w.order = p.arrived
	}
	p.line.push(w)
	p.dispatch()
}

// leave takes a task out of the line.
func (p *Places) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrive(w)
	if w.waiting {
		p.line.remove(w)
	}
}

// arrive frees the room that was reserved for a task. The caller holds mu.
func (p *Places) arrive(w *waiter) {
	if w.coming {
		w.coming = false
		p.coming--
	}
}

// let says whether tasks leave the line. Calls do so always.
func (p *Places) let(tasks bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = tasks
	p.dispatch()
}

// Do runs a task while the caller waits, and returns its result, or the error
// of Run. The error is a *FullError where there is no room, ErrClosed, or the
// cause of ctx's end. Run's context has the values of ctx.
func (p *Places) Do(ctx context.Context, s Spec) (json.RawMessage, error) {
	job := &Job{Owner: s.Owner, Name: s.Name, Payload: s.Payload, Value: s.Value, tail: &tail{max: p.o.LogBytes}}
	limit := p.limit(s.Timeout)
	p.mu.Lock()
	if err := p.admit(); err != nil {
		p.mu.Unlock()
		return nil, err
	}
	p.running.Add(1)
	defer p.running.Done()
	if p.busy < p.concurrency && p.line.n == 0 {
		p.busy++
		p.mu.Unlock()
		return p.run(ctx, job, limit)
	}
	ready := make(chan struct{})
	p.arrived++
	w := &waiter{priority: s.Priority, order: p.arrived, start: func() { close(ready) }}
	p.line.push(w)
	p.dispatch() // a place may be free where only tasks wait, which may not leave the line
	p.mu.Unlock()
	select {
	case <-ready:
		return p.run(ctx, job, limit)
	case <-ctx.Done():
	case <-p.closing:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.waiting {
		p.line.remove(w)
	} else {
		p.release()
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return nil, ErrClosed
}

// limit returns how long a task may run; 0 is without bound.
func (p *Places) limit(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return p.o.Timeout
	}
	return max(timeout, 0)
}

// Status returns the places in numbers.
func (p *Places) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status()
}

func (p *Places) status() Status {
	return Status{Queued: p.line.n + p.coming, Running: p.busy, Concurrency: p.concurrency, Max: p.max}
}

// Resize changes the number of tasks that may run and wait; zero leaves a number unchanged. Running
// and waiting tasks continue.
func (p *Places) Resize(concurrency, max int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if concurrency > 0 {
		p.concurrency = concurrency
	}
	if max > 0 {
		p.max = max
	}
	p.dispatch()
}

// dispatch gives free places to those who wait. The caller holds mu.
func (p *Places) dispatch() {
	for p.busy < p.concurrency && !p.closed {
		w := p.line.pop(p.tasks)
		if w == nil {
			return
		}
		p.busy++
		w.start()
	}
}

// release gives a place back. The caller holds mu.
func (p *Places) release() {
	p.busy--
	p.dispatch()
}

// giveBack gives back the place of a task that does not run.
func (p *Places) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

// Close shuts the Places down: they accept and start no more tasks, and waiting callers of Do get
// ErrClosed. Running tasks may finish until ctx ends; then they are interrupted. Close returns when
// all tasks have ended, with ctx's error if it had to interrupt any.
func (p *Places) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.closing)
	p.mu.Unlock()

	over := make(chan struct{})
	go func() { p.running.Wait(); close(over) }()
	var err error
	select {
	case <-over:
	case <-ctx.Done():
		err = context.Cause(ctx)
		p.shutdown(ErrInterrupted)
		<-over
	}
	p.shutdown(nil)
	return err
}
