package taskqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Job is a task as Run sees it. Write appends to the task's log; it may be called concurrently
// until Run returns.
type Job struct {
	ID      string // "" for a task of Do
	Owner   string
	Name    string
	Payload json.RawMessage
	Value   any // Spec.Value; nil after a restart
	io.Writer
}

// RunFunc executes a task. ctx ends when the task is cancelled, exceeds its time limit, or the
// Queue is closed; RunFunc should return soon after. A result that is returned together with an
// error is stored, too. RunFunc is called concurrently.
type RunFunc func(ctx context.Context, job *Job) (json.RawMessage, error)

// EventKind says what an [Event] tells.
type EventKind uint8

// The events of a task, in their order.
const (
	eventQueued EventKind = iota + 1
	eventStarted
	eventEnded
)

// Event tells of a change of one task, for metrics and for those who are told
// of changes.
type Event struct {
	Kind EventKind
	Task Task          // ID is "" for a task that was not submitted
	Wait time.Duration // from arrival to start; with eventStarted and eventEnded
	Ran  time.Duration // with eventEnded
}

// Options configures a Queue. Run must be set; other zero values stand for the
// defaults named.
type Options struct {
	Run RunFunc
	// Store keeps submitted tasks: a Memory of its own. The Queue closes it.
	Store Store
	// Concurrency is how many tasks run at once: 1.
	Concurrency int
	// Max is how many tasks may wait: 1,024.
	Max int
	// Timeout bounds the execution of a task that names no bound: 30 seconds.
	Timeout time.Duration
	// RetainCount (1,000), RetainBytes (64 MB) and RetainAge (an hour) bound the
	// ended tasks that can still be read. The oldest go first.
	RetainCount int
	RetainBytes int64
	RetainAge   time.Duration
	// LogBytes bounds the log tail of a task: 16 KB.
	LogBytes int
	// Grace is the time that Run has to return after its context has ended: 2 seconds. After that
	// the task is over even if Run is still running. Its place goes to the next task, unless
	// Concurrency places have been given away like that already.
	Grace time.Duration
	// Observe is called with each change, in order. It must be quick, and must not call the Queue.
	// It may be nil.
	Observe func(Event)
	// Logger receives failures that are not a task's own; nil discards them.
	Logger *slog.Logger
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Queue is a bounded queue of tasks and a bounded number of places to run them. All methods are
// safe for concurrent use.
type Queue struct {
	o     Options
	log   *slog.Logger
	store Store

	running sync.WaitGroup // goroutines of the Queue; Add under mu

	mu          sync.Mutex // guards below
	concurrency int
	max         int
	wait        line
	saving      int // places in the queue reserved for tasks that are being saved
	busy        int // occupied places to run
	abandoned   int // running calls of Run whose place was given away
	seq         int64
	items       map[string]*item // submitted tasks by id
	ended       []*item          // ended submitted tasks, in order of their end
	endedBytes  int64
	closed      bool
	shutdown    context.CancelCauseFunc
	ctx         context.Context // ends when Close stops waiting
}

// item is a task in the Queue. rec is guarded by Queue.mu once the item is in
// the line or in Queue.items.
type item struct {
	rec       Record
	value     any
	submitted bool
	log       tail
	saves     sync.Mutex // held while the record is saved; lock before Queue.mu

	waiting    bool // in the line; guarded by Queue.mu
	prev, next *item
	ready      chan struct{} // closed when a place to run is the item's; Do only

	cancel  context.CancelCauseFunc // while it runs; guarded by Queue.mu
	settled bool                    // its end is decided; guarded by Queue.mu
	done    chan struct{}           // closed when rec.State is final
}

// New returns a Queue and restores the tasks in its Store: waiting tasks wait again, and tasks that
// were running fail with ReasonInterrupted, or wait again if they are idempotent.
func New(o Options) (*Queue, error) {
	orDefault(&o.Concurrency, 1)
	orDefault(&o.Max, 1024)
	orDefault(&o.Timeout, 30*time.Second)
	orDefault(&o.RetainCount, 1000)
	orDefault(&o.RetainBytes, 64<<20)
	orDefault(&o.RetainAge, time.Hour)
	orDefault(&o.LogBytes, 16<<10)
	orDefault(&o.Grace, 2*time.Second)
	if o.Store == nil {
		o.Store = NewMemory()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	q := &Queue{o: o, log: o.Logger, store: o.Store, concurrency: o.Concurrency, max: o.Max, items: map[string]*item{}}
	q.ctx, q.shutdown = context.WithCancelCause(context.Background())
	if err := q.restore(); err != nil {
		q.shutdown(nil)
		return nil, err
	}
	return q, nil
}

// restore restores the tasks in the Store.
func (q *Queue) restore() error {
	records, err := q.store.Load()
	if err != nil {
		return fmt.Errorf("load tasks: %w", err)
	}
	var ended []*item
	now := time.Now()
	for _, r := range records {
		it := q.newItem(r, true)
		q.seq = max(q.seq, r.Seq)
		if r.State == Running {
			if !it.rec.again() {
				it.rec.State, it.rec.Reason, it.rec.Error = Failed, ReasonInterrupted, ErrInterrupted.Error()
				it.rec.Ended, it.rec.Updated, it.rec.Payload = now, now, nil
			}
			if err := q.store.Save(it.rec); err != nil {
				return fmt.Errorf("save task %s: %w", r.ID, err)
			}
		}
		q.items[r.ID] = it
		if it.rec.State.Final() {
			close(it.done)
			ended = append(ended, it)
			continue
		}
		q.wait.push(it) // may exceed Max if Max was lowered: these tasks were accepted
	}
	slices.SortStableFunc(ended, func(a, b *item) int { return cmp.Compare(a.rec.Ended.UnixNano(), b.rec.Ended.UnixNano()) })
	q.mu.Lock()
	for _, it := range ended {
		q.keep(it)
	}
	gone := q.expire(now)
	q.dispatch()
	q.mu.Unlock()
	q.forget(gone)
	return nil
}

func (q *Queue) newItem(r Record, submitted bool) *item {
	it := &item{rec: r, submitted: submitted, done: make(chan struct{})}
	it.log.max = q.o.LogBytes
	return it
}

// record makes the record of a task that arrives now.
func (q *Queue) record(s *Spec) Record {
	now := time.Now()
	r := Record{
		Owner: s.Owner, Name: s.Name, State: Pending, Priority: s.Priority, Timeout: s.Timeout, Retain: s.Retain,
		Created: now, Updated: now, Payload: s.Payload, Idempotent: s.Idempotent,
	}
	if r.Timeout == 0 {
		r.Timeout = q.o.Timeout
	}
	if r.Retain <= 0 || r.Retain > q.o.RetainAge {
		r.Retain = q.o.RetainAge
	}
	return r
}

// admit checks that there is room for one more. It is called under mu.
func (q *Queue) admit() error {
	if q.closed {
		return ErrClosed
	}
	if q.wait.n+q.saving >= q.max+max(0, q.concurrency-q.busy) {
		return &FullError{q.status()}
	}
	return nil
}

// Submit puts a task into the line and returns when it is saved. The error is
// a *FullError, ErrClosed, or what the Store said.
func (q *Queue) Submit(s Spec) (Task, error) {
	it := q.newItem(q.record(&s), true)
	it.rec.ID, it.value = rand.Text(), s.Value
	q.mu.Lock()
	if err := q.admit(); err != nil {
		q.mu.Unlock()
		return Task{}, err
	}
	q.saving++
	q.seq++
	it.rec.Seq = q.seq
	q.running.Add(1)
	defer q.running.Done()
	q.mu.Unlock()

	err := q.store.Save(it.rec)
	now := time.Now()
	q.mu.Lock()
	q.saving--
	if err != nil {
		q.mu.Unlock()
		return Task{}, fmt.Errorf("save the task: %w", err)
	}
	q.items[it.rec.ID] = it
	t := it.rec.task()
	gone := q.expire(now)
	q.wait.push(it)
	q.observe(eventQueued, it)
	q.dispatch()
	q.mu.Unlock()
	q.forget(gone)
	return t, nil
}

// Do queues a task and waits for its result. If ctx ends first, the task is cancelled. The error is
// a *FullError, ErrClosed, a *TimeoutError, the error of Run (with Run's result, if any), or the
// cause of ctx's end. Run's context has the values of ctx.
func (q *Queue) Do(ctx context.Context, s Spec) (json.RawMessage, error) {
	it := q.newItem(q.record(&s), false)
	it.value = s.Value
	q.mu.Lock()
	if err := q.admit(); err != nil {
		q.mu.Unlock()
		return nil, err
	}
	q.running.Add(1)
	defer q.running.Done()
	q.seq++
	it.rec.Seq = q.seq
	q.observe(eventQueued, it)
	if q.busy < q.concurrency && q.wait.n == 0 && !q.closed {
		q.busy++
		q.mu.Unlock()
		return q.execute(ctx, it)
	}
	it.ready = make(chan struct{})
	q.wait.push(it)
	q.mu.Unlock()
	select {
	case <-it.ready:
		return q.execute(ctx, it)
	case <-ctx.Done():
	case <-q.ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.waiting {
		q.wait.remove(it)
	} else {
		q.release()
	}
	it.rec.State, it.rec.Reason, it.rec.Ended = Cancelled, ReasonCancelled, time.Now()
	q.observe(eventEnded, it)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return nil, ErrClosed
}

// Status returns the queue in numbers.
func (q *Queue) Status() Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.status()
}

func (q *Queue) status() Status {
	return Status{Queued: q.wait.n + q.saving, Running: q.busy, Concurrency: q.concurrency, Max: q.max}
}

// Resize changes the number of tasks that may run and wait; zero leaves a number unchanged. Running
// and waiting tasks continue.
func (q *Queue) Resize(concurrency, max int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if concurrency > 0 {
		q.concurrency = concurrency
	}
	if max > 0 {
		q.max = max
	}
	q.dispatch()
}

// dispatch gives free places to those who wait. It is called under mu.
func (q *Queue) dispatch() {
	for q.busy < q.concurrency && !q.closed {
		it := q.wait.pop()
		if it == nil {
			return
		}
		q.busy++
		if it.ready != nil {
			close(it.ready)
			continue
		}
		q.running.Go(func() { _, _ = q.execute(context.Background(), it) })
	}
}

// release gives a place back. It is called under mu.
func (q *Queue) release() {
	q.busy--
	q.dispatch()
}

// observe tells of a change. It is called under mu, so that changes of one task
// are told in order.
func (q *Queue) observe(kind EventKind, it *item) {
	if q.o.Observe == nil {
		return
	}
	e := Event{Kind: kind, Task: it.task()}
	if !it.rec.Started.IsZero() {
		e.Wait = it.rec.Started.Sub(it.rec.Created)
		if kind == eventEnded {
			e.Ran = it.rec.Ended.Sub(it.rec.Started)
		}
	}
	q.o.Observe(e)
}

// task returns what is known of the item. It is called under mu.
func (it *item) task() Task {
	if !it.submitted {
		t := it.rec.task()
		t.ID = ""
		return t
	}
	if !it.rec.State.Final() {
		it.readLog()
	}
	return it.rec.task()
}

// readLog brings the log's tail into the record.
func (it *item) readLog() {
	text, seq, cut, last := it.log.read()
	if seq == 0 {
		return // nothing yet, or the log is from before a restart
	}
	it.rec.LogTail, it.rec.LogSeq, it.rec.LogCut = text, seq, cut
	if last.After(it.rec.Updated) {
		it.rec.Updated = last
	}
}

// Close shuts the Queue down: it accepts and starts no more tasks, and waiting callers of Do get
// ErrClosed. Running tasks may finish until ctx ends; then they are interrupted. Waiting submitted
// tasks stay in the Store. Close returns when all tasks have ended, with ctx's error if it had to
// interrupt any.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	var waiters []*item
	for i := range q.wait.lists {
		for it := q.wait.lists[i].first; it != nil; it = it.next {
			if it.ready != nil {
				waiters = append(waiters, it)
			}
		}
	}
	for _, it := range waiters {
		q.wait.remove(it)
		q.busy++ // its goroutine finds the queue closed and gives the place back
		close(it.ready)
	}
	q.mu.Unlock()

	over := make(chan struct{})
	go func() { q.running.Wait(); close(over) }()
	var err error
	select {
	case <-over:
	case <-ctx.Done():
		err = context.Cause(ctx)
		q.shutdown(ErrInterrupted)
		<-over
	}
	q.shutdown(nil)
	return errors.Join(err, q.store.Close())
}
