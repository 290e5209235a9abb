package socketio

import (
	"sync"
	"sync/atomic"
	"time"
)

// job is an event with its handler, or a function to be called in turn.
type job struct {
	event *Event
	entry *entry
	size  int
	do    func()
}

// jobs runs the handlers of one socket in order. Its worker exists only while there are jobs.
type jobs struct {
	conn   *conn
	worker func() // the method work, bound once

	mu      sync.Mutex // guards below
	over    bool       // new events are refused
	barred  bool       // waiting events are dropped
	queue   []job
	spare   []job // for the queue, empty
	bytes   int   // of the queue
	running bool  // a goroutine works on the queue, or handles an event at once
	active  int   // running concurrent handlers
	eased   *sync.Cond

	flush     *time.Timer // for gathered answers; belongs to the worker
	gathering atomic.Bool // answers wait for more answers, until flush fires
}

func (q *jobs) init(c *conn) {
	q.conn = c
	q.worker = q.work
}

// end refuses further events. bar drops those that wait.
func (q *jobs) end(bar bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over, q.barred = true, bar
	q.easeLocked()
}

// push queues a job and reports whether the caller must start the work. push blocks if too many
// events wait, which slows down a fast peer. Only the reader pushes events, so only the reader
// blocks.
func (q *jobs) push(j job) bool {
	limits := q.conn.limits
	q.mu.Lock()
	for j.event != nil && !q.over && len(q.queue) > 0 && (len(q.queue) >= limits.pending || q.bytes+j.size > limits.pendingBytes) {
		q.startLocked()
		q.waitEasedLocked()
	}
	defer q.mu.Unlock()
	if j.event != nil && q.over {
		j.event.done()
		return false
	}
	q.queue = append(q.queue, j)
	q.bytes += j.size
	return len(q.queue) == 1 && !q.running
}

// claim makes the caller the worker, for one event that it handles itself. It fails while an earlier
// event is unfinished. After a success the caller must call release.
func (q *jobs) claim() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over || q.running || len(q.queue) > 0 {
		return false
	}
	q.running = true
	return true
}

// release undoes claim, and starts a worker for the jobs that have come meanwhile.
func (q *jobs) release() {
	q.mu.Lock()
	q.running = false
	q.startLocked()
	q.mu.Unlock()
}

// start starts the worker unless it runs.
func (q *jobs) start() {
	q.mu.Lock()
	q.startLocked()
	q.mu.Unlock()
}

func (q *jobs) startLocked() {
	if q.running || len(q.queue) == 0 {
		return
	}
	q.running = true
	q.conn.limits.workers.run(q.worker)
}

// flushAfter is the maximum time that an answer waits for the answers to later events if the next
// handler is slow.
const flushAfter = time.Millisecond

// work runs jobs in order until there are none.
func (q *jobs) work() {
	var jobs []job
	for {
		q.mu.Lock()
		q.keepLocked(jobs)
		jobs = q.queue
		if len(jobs) == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.queue, q.spare, q.bytes = q.spare, nil, 0
		q.easeLocked()
		q.mu.Unlock()
		for i := range jobs {
			if len(jobs) > 1 {
				q.gather()
			}
			j := jobs[i]
			jobs[i] = job{}
			if i == len(jobs)-1 && j.do == nil && j.entry.concurrent {
				q.handOn(len(jobs))
				if q.own(jobs) {
					q.handle(j)
					return
				}
			}
			q.run(j)
		}
		q.handOn(len(jobs))
	}
}

// maxSpare is how many slots of a queue are kept for reuse.
const maxSpare = 16

// keepLocked keeps the slots of finished jobs. A new worker has none to keep.
func (q *jobs) keepLocked(jobs []job) {
	if cap(jobs) > 0 && cap(jobs) <= maxSpare {
		q.spare = jobs[:0]
	}
}

// handOn sends the gathered answers.
func (q *jobs) handOn(jobs int) {
	if jobs > 1 {
		q.gathering.Store(false)
		q.flush.Stop()
		q.conn.link.Flush()
	}
}

// own reports whether the worker may run the last job, a concurrent one, itself instead of starting
// another goroutine. If so, it stops being the worker of the queue: later jobs get a new worker and
// new slots.
func (q *jobs) own(jobs []job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.barred || len(q.queue) > 0 || q.active >= q.conn.limits.concurrent {
		return false
	}
	q.active++
	q.running = false
	q.keepLocked(jobs)
	return true
}

// gather delays answers for a short time, so that they share one write.
func (q *jobs) gather() {
	if q.gathering.Load() {
		return
	}
	q.gathering.Store(true)
	if q.flush == nil {
		q.flush = time.AfterFunc(flushAfter, func() {
			q.gathering.Store(false)
			q.conn.link.Flush()
		})
		return
	}
	q.flush.Reset(flushAfter)
}

func (q *jobs) run(j job) {
	if j.do != nil {
		j.do()
		return
	}
	q.mu.Lock()
	barred := q.barred
	q.mu.Unlock()
	switch {
	case barred:
		j.event.done()
	case j.entry.concurrent:
		q.runConcurrently(j)
	default:
		j.entry.handle(j.event)
		j.event.done()
	}
}

// runConcurrently starts the handler as soon as few enough are running.
func (q *jobs) runConcurrently(j job) {
	q.mu.Lock()
	for q.active >= q.conn.limits.concurrent {
		q.waitEasedLocked()
	}
	q.active++
	q.mu.Unlock()
	q.conn.limits.workers.run(func() { q.handle(j) })
}

// handle runs a concurrent handler.
func (q *jobs) handle(j job) {
	j.entry.handle(j.event)
	j.event.done()
	q.mu.Lock()
	q.active--
	q.easeLocked()
	q.mu.Unlock()
}

// waitEasedLocked blocks until fewer events wait.
func (q *jobs) waitEasedLocked() {
	if q.eased == nil {
		q.eased = sync.NewCond(&q.mu)
	}
	q.eased.Wait()
}

func (q *jobs) easeLocked() {
	if q.eased != nil {
		q.eased.Broadcast()
	}
}
