package socketio

import (
	"runtime"
	"sync"
)

const (
	// fanAt is the number of sockets from which a broadcast is written by several goroutines.
	fanAt = 32
	// fanAhead is how many broadcasts may be queued before the first of them is written. Then a
	// broadcast blocks: otherwise a loop of broadcasts would disconnect peers as slow consumers
	// before they had a chance to read.
	fanAhead = 16
)

// fan writes broadcasts to many sockets. Queueing a frame takes a hundred nanoseconds, writing it
// takes microseconds, mostly in the kernel. So a broadcast only queues its frames. Writer
// goroutines, which exist only while there is work, flush each socket once for all frames that were
// queued meanwhile.
//
//	broadcast ─▶ queue of each session ─▶ dirty list ─▶ writers: take it, flush each session
type fan struct {
	limits *limits

	mu      sync.Mutex // guards below
	dirty   []*conn
	ahead   int // broadcasts since the writers last took the list
	writers int
	caught  *sync.Cond // the writers have caught up
	spare   []*conn
	lists   sync.Pool
}

// list is scratch space of one broadcast.
type list struct {
	sockets []*Socket
	dirty   []*conn
}

func (f *fan) take() *list {
	if l, ok := f.lists.Get().(*list); ok {
		return l
	}
	return &list{}
}

func (f *fan) put(l *list) {
	clear(l.sockets)
	clear(l.dirty)
	l.sockets, l.dirty = l.sockets[:0], l.dirty[:0]
	f.lists.Put(l)
}

// send sends a message to all sockets of the list. It skips sockets that have left, and closes the
// connection of a peer that does not read.
func (f *fan) send(l *list, m message) {
	if len(l.sockets) < fanAt {
		for _, s := range l.sockets {
			_ = s.conn.link.send(m, false)
		}
		return
	}
	f.waitTurn()
	for _, s := range l.sockets {
		if s.conn.link.send(m, true) == nil && s.conn.dirty.CompareAndSwap(false, true) {
			l.dirty = append(l.dirty, s.conn)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty = append(f.dirty, l.dirty...)
	if f.writers == 0 && len(f.dirty) > 0 {
		f.writers++
		f.limits.workers.run(f.write)
	}
}

// waitTurn blocks while too many broadcasts are queued.
func (f *fan) waitTurn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.caught == nil {
		f.caught = sync.NewCond(&f.mu)
	}
	for f.writers > 0 && f.ahead >= fanAhead {
		f.caught.Wait()
	}
	f.ahead++
}

// write flushes sessions until none is dirty.
func (f *fan) write() {
	for {
		f.mu.Lock()
		batch := f.dirty
		f.dirty, f.spare = f.spare[:0], nil
		f.ahead = 0
		f.caught.Broadcast()
		if len(batch) == 0 {
			f.writers--
			f.spare = batch
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		flushAll(batch)
		clear(batch)
		f.mu.Lock()
		if cap(batch) <= 4096 {
			f.spare = batch[:0]
		}
		f.mu.Unlock()
	}
}

// flushAll flushes sessions, on all processors if there are many.
func flushAll(batch []*conn) {
	share := max((len(batch)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0), fanAt)
	var others sync.WaitGroup
	for len(batch) > share {
		part := batch[:share]
		batch = batch[share:]
		others.Go(func() { flushEach(part) })
	}
	flushEach(batch)
	others.Wait()
}

func flushEach(batch []*conn) {
	for _, c := range batch {
		c.dirty.Store(false)
		c.link.Flush()
	}
}
