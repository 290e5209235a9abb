package socketio

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// TransportLocal is the value of Socket.Transport for a connection within one process.
const TransportLocal engineio.Transport = "local"

// Local lets clients of this process connect to a Server without HTTP, Engine.IO and encoding;
// see ClientConfig.Local. Everything else works as over a network: namespaces and their middleware,
// the order of events, acks, bounded queues and Shutdown.
//
//	client Socket ─ Emit ─▶ queue of the server's end ─▶ reader ─▶ handlers of the namespace
//	              ◀─ handlers ◀─ reader ◀─ queue of the client's end ◀─ Emit ─ server Socket
//
// An emit's ack, and an event of Config.Immediate, need no reader if none is at work.
//
// Messages are copied when they are sent, so that neither side sees the other's bytes change.
type Local struct {
	server    *Server
	handshake *engineio.Handshake
}

// Local returns an in-process connection to the server. The server's sockets return handshake from
// Socket.Handshake. Authenticate is not called, and there is no probation.
func (s *Server) Local(handshake *engineio.Handshake) *Local { return &Local{s, handshake} }

// localBounds bounds one direction; 0 means the default of engineio.
type localBounds struct {
	bytes, frames int             // queued
	message       int             // of one text or attachment, for the peer
	memory        *memory.Account // counts the copies of large messages; nil: not counted
}

const defaultLocalBytes = 16 << 20

func (b localBounds) full(frames, bytes int) bool {
	most, mostFrames := b.bytes, b.frames
	if most <= 0 {
		most = defaultLocalBytes
	}
	if mostFrames <= 0 {
		mostFrames = engineio.DefaultMaxQueueFrames
	}
	return bytes > most || frames > mostFrames
}

// localEnd is one side of a connection within the process. Both sides share a lock.
type localEnd struct {
	conn      *conn
	peer      *localEnd
	handshake *engineio.Handshake // nil at the client
	bounds    localBounds         // of messages to the peer
	forget    func()              // called when the end has closed
	told      chan struct{}       // closed when conn knows of the end of the connection

	mu      *sync.Mutex // guards below
	queue   []message   // for conn
	frames  int         // in the queue and with the reader
	bytes   int         // of these messages
	reading bool        // a goroutine passes messages to conn
	left    bool        // the peer has closed: nothing follows the queue
	over    bool        // this side has closed
}

var _ link = (*localEnd)(nil)

// dial connects. accept returns the client's conn.
func (l *Local) dial(bounds localBounds, accept func(link) *conn) (link, error) {
	s, mu := l.server, new(sync.Mutex)
	near := &localEnd{bounds: bounds, told: make(chan struct{}), forget: func() {}, mu: mu}
	near.bounds.message = s.bounds.message
	far := &localEnd{bounds: s.bounds, told: make(chan struct{}), handshake: l.handshake, peer: near, mu: mu}
	far.bounds.message = 0
	near.peer = far
	far.forget = func() {
		s.mu.Lock()
		delete(s.locals, far)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return nil, engineio.ErrServerClosed
	}
	near.conn, far.conn = accept(near), s.newConn(far)
	s.locals[far] = struct{}{}
	return near, nil
}

// endLocals ends the in-process connections and refuses new ones.
func (s *Server) endLocals() {
	s.mu.Lock()
	s.shut = true
	all := make([]*localEnd, 0, len(s.locals))
	for e := range s.locals {
		all = append(all, e)
	}
	s.mu.Unlock()
	for _, e := range all {
		e.CloseWith(engineio.ReasonShutdown)
	}
}

// send implements link.
func (e *localEnd) send(m message, _ bool) error {
	size, frames := m.size(), 1+len(m.Attachments)
	if limit := e.bounds.message; limit > 0 {
		largest := m.textSize()
		for _, a := range m.Attachments {
			largest = max(largest, len(a))
		}
		if largest > limit {
			return fmt.Errorf("%w: %d bytes, it takes %d", engineio.ErrTooLarge, largest, limit)
		}
	}
	hold := e.bounds.memory.Hold()
	if m.Handed {
		hold = memory.Hold{}
	}
	if !hold.TryGrow(int64(size)) {
		return engineio.ErrNoRoom
	}
	m = m.clone()
	if hold.Len() > 0 {
		m.own = releases{hold.Release}
	}
	p := e.peer
	e.mu.Lock()
	switch {
	case e.over:
		e.mu.Unlock()
		m.take().run()
		return engineio.ErrClosed
	case p.over: // the message is lost, as on a network: this side is about to learn of the end
		m.take().run()
	case p.frames > 0 && e.bounds.full(p.frames+frames, p.bytes+size):
		e.mu.Unlock()
		m.take().run()
		e.end(engineio.ReasonSlowConsumer, true)
		return engineio.ErrSlowConsumer
	case !p.reading && len(p.queue) == 0:
		p.frames += frames
		p.bytes += size
		p.reading = true
		e.mu.Unlock()
		p.readNow(m)
		return nil
	default:
		p.queue = append(p.queue, m)
		p.frames += frames
		p.bytes += size
		p.readLocked()
	}
	e.mu.Unlock()
	return nil
}

// readNow passes one message to conn in the sender's goroutine, which is this end's reader meanwhile,
// or starts a reader for it. So an ack reaches its emit without another goroutine.
func (e *localEnd) readNow(m message) {
	done := e.conn.deliverNow(&m)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = false
	switch {
	case e.over: // end has dropped the queue
		m.take().run()
	case done:
		e.frames -= 1 + len(m.Attachments)
		e.bytes -= m.size()
	default:
		e.queue = slices.Insert(e.queue, 0, m)
	}
	if len(e.queue) > 0 || e.left && !e.over {
		e.readLocked()
	}
}

// readLocked starts the reader, unless it runs.
func (e *localEnd) readLocked() {
	if !e.reading {
		e.reading = true
		e.conn.limits.workers.run(e.read)
	}
}

// read passes messages to conn until the queue is empty. Handlers run in other goroutines, but conn
// blocks while too many events wait for them; then the queue grows to its bound.
func (e *localEnd) read() {
	for {
		e.mu.Lock()
		if e.over || len(e.queue) == 0 {
			e.reading = false
			last := e.left && !e.over
			e.mu.Unlock()
			if last {
				e.end(engineio.ReasonTransportClose, false)
			}
			return
		}
		batch := e.queue
		e.queue = nil
		e.mu.Unlock()
		for i := range batch {
			if !e.deliver(&batch[i]) {
				rest := batch[i+1:]
				dropQueue(&rest)
				break
			}
		}
		e.conn.Pause()
	}
}

// deliver passes one message to conn and reports whether the connection continues.
func (e *localEnd) deliver(m *message) bool {
	if err := e.conn.deliver(m); err != nil {
		e.conn.limits.logger.Debug("socketio: closing a connection", "error", err)
		e.end(engineio.ReasonParseError, false)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frames -= 1 + len(m.Attachments)
	e.bytes -= m.size()
	m.take().run() // unless it was passed on
	*m = message{}
	return !e.over
}

// end closes this side, once. The peer's side closes after it has read its queue, or at once with
// abort.
func (e *localEnd) end(reason Reason, abort bool) {
	e.mu.Lock()
	if e.over {
		e.mu.Unlock()
		return
	}
	dropQueue(&e.queue)
	e.over = true
	p := e.peer
	p.left = true
	if abort {
		dropQueue(&p.queue)
	}
	if !p.over {
		p.readLocked()
	}
	e.mu.Unlock()
	e.conn.limits.workers.run(func() {
		e.conn.Closed(reason, nil)
		e.forget()
		close(e.told)
	})
}

// dropQueue drops the messages of a queue.
func dropQueue(queue *[]message) {
	for i := range *queue {
		(*queue)[i].take().run()
	}
	*queue = nil
}

// Flush implements link: send has started the reader.
func (e *localEnd) Flush() {}

// Close implements link.
func (e *localEnd) Close() { e.CloseWith(engineio.ReasonForcedClose) }

// CloseWith implements link.
func (e *localEnd) CloseWith(reason Reason) { e.end(reason, false) }

// Wait implements link.
func (e *localEnd) Wait() { <-e.told }

// Handshake implements link.
func (e *localEnd) Handshake() *engineio.Handshake { return e.handshake }

// Transport implements link.
func (e *localEnd) Transport() engineio.Transport { return TransportLocal }

// Admit implements link.
func (e *localEnd) Admit() error { return nil }

// OnProbation implements link.
func (e *localEnd) OnProbation() bool { return false }

// Probe implements link: a peer of this process is alive until it ends.
func (e *localEnd) Probe(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.left {
		return engineio.ErrClosed
	}
	return nil
}
