package socketio

import (
	"sync"
	"sync/atomic"
	"time"
)

// A job is an event with its handler, or a function to be called in turn.
type job struct {
	event *Event
	entry *entry
	size  int
	do    func()
}

// jobs runs the handlers of one socket in order, in a worker that exists only while there are any.
type jobs struct {
	conn   *conn
	worker func() // work, made once

	mu      sync.Mutex // guards below
	over    bool       // no more events are taken
	barred  bool       // events that wait are dropped
	queue   []job
	spare   []job // for the queue, empty
	bytes   int   // of the queue
	running bool  // a goroutine works on the queue
	active  int   // concurrent handlers that run
	eased   *sync.Cond

	flush     *time.Timer // of gathered answers; the worker's
	gathering atomic.Bool // answers wait for others to go with, until flush fires
}

func (q *jobs) init(c *conn) {
	q.conn = c
	q.worker = q.work
}

// end takes no more events. bar drops those that wait.
func (q *jobs) end(bar bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over, q.barred = true, bar
	q.easeLocked()
}

// push queues a job and reports whether the caller must start the work. If too many events wait,
// push blocks, which slows down a peer that sends too fast: only the reader pushes events, so only
// the reader blocks.
func (q *jobs) push(j job) bool {
	limits := q.conn.limits
	q.mu.Lock()
	for j.event != nil && !q.over && len(q.queue) > 0 && (len(q.queue) >= limits.pending || q.bytes+j.size > limits.pendingBytes) {
		q.startLocked()
		q.waitEasedLocked()
	}
	defer q.mu.Unlock()
	if j.event != nil && q.over {
		return false
	}
	q.queue = append(q.queue, j)
	q.bytes += j.size
	return len(q.queue) == 1 && !q.running
}

// start begins to work on the queue, unless a worker does already.
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

// flushAfter is how long an answer waits at most for those of the events behind it, if the next handler takes its time.
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

// maxSpare is how many places of a queue are kept for what comes next.
const maxSpare = 16

// keepLocked keeps the room of jobs that are done. A worker that has had none yet has none to keep.
func (q *jobs) keepLocked(jobs []job) {
	if cap(jobs) > 0 && cap(jobs) <= maxSpare {
		q.spare = jobs[:0]
	}
}

// handOn sends what gather has kept.
func (q *jobs) handOn(jobs int) {
	if jobs > 1 {
		q.gathering.Store(false)
		q.flush.Stop()
		q.conn.link.Flush()
	}
}

// own reports whether the worker may run a concurrent job, the last there is, itself, instead of leaving it to another. If so,
// it is no longer the worker of the queue: what comes now has its own, and the room of its jobs.
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

// gather lets what is sent from now on wait for a common write, but not for long.
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
	case j.entry.concurrent:
		q.runConcurrently(j)
	default:
		j.entry.handle(j.event)
	}
}

// runConcurrently starts the handler as soon as there are few enough of them.
func (q *jobs) runConcurrently(j job) {
	q.mu.Lock()
	for q.active >= q.conn.limits.concurrent {
		q.waitEasedLocked()
	}
	q.active++
	q.mu.Unlock()
	q.conn.limits.workers.run(func() { q.handle(j) })
}

// handle runs the handler of one of the active jobs.
func (q *jobs) handle(j job) {
	j.entry.handle(j.event)
	q.mu.Lock()
	q.active--
	q.easeLocked()
	q.mu.Unlock()
}

// waitEasedLocked waits until there is less to do.
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
