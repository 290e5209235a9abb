package engineio

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/memory"
)

// A Session is one Engine.IO session, of a server or of a client. Its methods may be called by any goroutine.
type Session struct {
	env       *environment
	id        string
	handshake *Handshake // nil in a client
	receiver  Receiver
	client    *client // nil in a server

	receiving  sync.Mutex  // held while packets are handed to the receiver: around an upgrade, a POST and the WebSocket may overlap
	delivering atomic.Bool // the receiver is at work: silence of the peer is our own doing
	over       atomic.Bool // the session has ended: state is no longer open
	listening  atomic.Bool // somebody waits for sign

	probation atomic.Bool // server: waits for Admit; written under Server.mu
	address   string      // what it counts against while it does

	mu sync.Mutex // guards below; never held while a Receiver is called or the network may block

	state   state
	reason  Reason
	err     error
	done    chan struct{} // closed when the session has ended; nil: nobody has asked for it
	parting byte          // what a last GET is answered with: packetClose, packetNoop or 0

	queue   []item // nil or from spareItems
	frames  int    // in the queue and in the hands of the writer
	bytes   int    // the same in bytes
	writing bool   // somebody is writing to the WebSocket

	ws        *wsConn       // nil while the session polls
	upgrading bool          // a WebSocket has come and has not sent its 5 yet
	probed    bool          // server: it has sent its probe, so that polling should come to rest
	told      chan struct{} // server: closed when a GET has taken the parting packet of a client that closed
	poll      *poll         // server: the GET that is held
	posts     int           // server: POSTs being read

	sign   chan struct{} // closed when something comes; nil: nobody waits for it
	timer  *time.Timer
	pingAt time.Time // when the next ping is due; the session dies pingTimeout after it
	pinged bool      // server: waiting for the pong
}

type state uint8

const (
	open   state = iota
	ending       // Closed has been announced; what is queued may still be written
	ended
)

// An item is a queued frame. more says that the next one belongs to the same unit.
type item struct {
	Frame
	more bool
}

// An environment is what the sessions of a server share, or a client's session has for itself.
type environment struct {
	interval, timeout time.Duration
	maxMessage        int // bytes of what is read at once
	maxPayload        int // bytes of what is sent at once by polling
	maxFrame          int // bytes of a message that the peer takes; 0: any
	queueBytes        int
	queueFrames       int
	memory            *memory.Account // nil: nothing is counted
	logger            *slog.Logger
	tasks             tasks
	forget            func(*Session) // the session's id is no longer needed
	probation         *Probation     // nil: there is none
	admit             func(*Session) error
}

// closeTimeout bounds how long an ended session may take to write what is queued and to see its peer leave.
const closeTimeout = 2 * time.Second

// ID is the session's id. It is a secret between the two sides: who knows it can speak for the client.
func (s *Session) ID() string { return s.id }

// Handshake is the request that the session began with; nil in a client. It must not be changed.
func (s *Session) Handshake() *Handshake { return s.handshake }

// Wait returns when the session has ended and, in a client, everything that belonged to it has.
func (s *Session) Wait() {
	<-s.Done()
	if s.client != nil {
		s.env.tasks.wait(nil)
	}
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.state != open {
			close(s.done)
		}
	}
	return s.done
}

// Err is why the session has ended, a *CloseError, or nil while it is open.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == open {
		return nil
	}
	return &CloseError{Reason: s.reason, Err: s.err}
}

// Transport is what carries the session at the moment.
func (s *Session) Transport() Transport {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ws != nil {
		return WebSocket
	}
	return Polling
}

// Send queues frames as one unit: nothing else comes between them. It does not block. A session whose queue is full is closed
// with ReasonSlowConsumer, and Send returns ErrSlowConsumer.
func (s *Session) Send(frames ...Frame) error {
	if err := s.enqueue(frames); err != nil {
		return err
	}
	s.Flush()
	return nil
}

// SendLater is Send, but leaves it to a Flush, or the next Send, to wake the writer: for callers who know that more is about
// to come. They must not forget to Flush.
func (s *Session) SendLater(frames ...Frame) error { return s.enqueue(frames) }

func (s *Session) enqueue(frames []Frame) error {
	size := 0
	for i := range frames {
		size += frames[i].size()
		if limit := s.env.maxFrame; limit > 0 && len(frames[i].packet()) > limit {
			return fmt.Errorf("%w: %d bytes, it takes %d", ErrTooLarge, len(frames[i].packet()), limit)
		}
	}
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return ErrClosed
	}
	// One unit may be larger than the bound; two of them may not wait together.
	if s.frames > 0 && s.queueFull(len(frames), size) {
		s.mu.Unlock()
		s.end(ReasonSlowConsumer, nil, aborted)
		return ErrSlowConsumer
	}
	s.makeQueueLocked()
	for i, f := range frames {
		s.queue = append(s.queue, item{Frame: f, more: i < len(frames)-1})
	}
	s.frames += len(frames)
	s.bytes += size
	s.mu.Unlock()
	return nil
}

// spareItems are queues that nobody uses, so that an idle session needs none of its own.
var spareItems = sync.Pool{New: func() any { return new([16]item) }}

func (s *Session) makeQueueLocked() {
	if s.queue == nil {
		s.queue = spareItems.Get().(*[16]item)[:0]
	}
}

// spare takes a queue back. One that has grown is left to the garbage collector.
func spare(items []item) {
	if cap(items) == len([16]item{}) {
		items = items[:cap(items)]
		clear(items)
		spareItems.Put((*[16]item)(items))
	}
}

// enqueueControlLocked puts a packet into the queue that nobody counts: there is at most one of each kind.
func (s *Session) enqueueControlLocked(f Frame) {
	s.makeQueueLocked()
	s.queue = append(s.queue, item{Frame: f})
	s.frames++
	s.bytes += f.size()
}

// Flush sees to it that what is queued gets on its way. It does not block.
func (s *Session) Flush() {
	s.mu.Lock()
	switch {
	case len(s.queue) == 0 && s.state == open:
		s.mu.Unlock()
	case s.ws != nil:
		s.writeLocked()
	case s.client != nil:
		s.mu.Unlock()
		s.client.wakePost()
	default:
		s.poll.wake()
		s.mu.Unlock()
	}
}

// Close ends the session with ReasonForcedClose. What is queued is still sent, in the background and for a bounded time.
func (s *Session) Close() { s.end(ReasonForcedClose, nil, graceful) }

// CloseWith is Close with a reason of the caller's, which may be none of this package's.
func (s *Session) CloseWith(reason Reason) { s.end(reason, nil, graceful) }

// how a session ends.
type manner uint8

const (
	graceful manner = iota // what is queued is still sent
	aborted                // nothing more is sent
	byPeer                 // the peer said goodbye
)

// end ends the session once; further calls do nothing.
func (s *Session) end(reason Reason, err error, how manner) {
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return
	}
	s.state, s.reason, s.err = ending, reason, err
	s.timer.Stop()
	if how != graceful {
		s.dropQueueLocked()
	}
	s.over.Store(true)
	if s.done != nil {
		close(s.done)
	}
	if receiver := s.receiver; receiver != nil {
		s.env.tasks.Go(func() { receiver.Closed(reason, err) })
	}
	s.env.logger.Debug("engineio: session ended", "reason", string(reason), "error", err)
	switch {
	case s.client != nil:
		s.client.endLocked(s, how) // unlocks
	case s.ws != nil && how == aborted:
		s.state = ended
		s.mu.Unlock()
		s.ws.abort()
		s.env.forget(s)
	case s.ws != nil:
		s.env.forget(s)
		s.ws.setWriteLimit(closeTimeout)
		s.writeLocked() // what is queued, then the close frame
	default:
		s.endPollLocked(how) // unlocks
	}
}

func (s *Session) dropQueueLocked() {
	s.queue, s.frames, s.bytes = nil, 0, 0
}

// receive handles one packet of the peer. It reports whether the session goes on. The caller holds s.receiving.
func (s *Session) receive(p packet) bool {
	switch p.kind {
	case packetMessage:
		s.delivering.Store(true)
		s.receiver.Message(p.data, p.binary)
		s.delivering.Store(false)
		return s.isOpen()
	case packetPong:
		s.pong()
		return true
	case packetClose:
		s.end(ReasonTransportClose, nil, byPeer)
		return false
	case packetPing:
		if s.client != nil {
			s.heard(p.data)
			return true
		}
		s.end(ReasonParseError, errHeartbeatDirection, graceful)
		return false
	case packetNoop, packetUpgrade:
		return true
	default: // packetOpen
		s.end(ReasonParseError, errSecondOpen, graceful)
		return false
	}
}

func (s *Session) isOpen() bool { return !s.over.Load() }

// --- heartbeat of a server ---

// startHeartbeat sets the first ping. Deadlines are absolute: they follow from when a ping was due, never from when a timer
// happened to fire or a GET happened to come.
func (s *Session) startHeartbeat() {
	s.pingAt = time.Now().Add(s.env.interval)
	s.timer = time.AfterFunc(s.env.interval, s.beat)
}

func (s *Session) beat() {
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return
	}
	now := time.Now()
	deadline := s.pingAt.Add(s.env.timeout)
	switch {
	case now.Before(s.pingAt):
		s.timer.Reset(s.pingAt.Sub(now))
		s.mu.Unlock()
	case !s.pinged:
		s.pinged = true
		s.timer.Reset(deadline.Sub(now))
		s.enqueueControlLocked(pingFrame)
		s.mu.Unlock()
		s.Flush()
	case now.Before(deadline):
		s.timer.Reset(deadline.Sub(now))
		s.mu.Unlock()
	case s.delivering.Load():
		// Our own receiver keeps us from reading the pong. The client must hear from us all the same.
		s.pingAt = now
		s.timer.Reset(s.env.timeout)
		s.enqueueControlLocked(pingFrame)
		s.mu.Unlock()
		s.Flush()
	default:
		s.mu.Unlock()
		s.end(ReasonPingTimeout, nil, aborted)
	}
}

// pong takes the answer to a ping. One that nobody asked for counts for nothing (some clients begin with one).
func (s *Session) pong() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != open || !s.pinged {
		return
	}
	s.pinged = false
	s.pingAt = time.Now().Add(s.env.interval)
	s.timer.Reset(s.env.interval)
}

// expiredLocked reports whether the pong is overdue, for requests that come before the timer does.
func (s *Session) expiredLocked() bool {
	return s.state == open && !s.delivering.Load() && !time.Now().Before(s.pingAt.Add(s.env.timeout))
}

// --- goroutines ---

// tasks counts goroutines, so that somebody can wait for their end.
type tasks struct {
	running atomic.Int64
	idle    chan struct{} // capacity 1
}

func (t *tasks) Go(f func()) {
	t.running.Add(1)
	go func() {
		defer t.finish()
		f()
	}()
}

func (t *tasks) finish() {
	if t.running.Add(-1) == 0 {
		select {
		case t.idle <- struct{}{}:
		default:
		}
	}
}

// wait returns true when nothing runs, or false when stop is closed.
func (t *tasks) wait(stop <-chan struct{}) bool {
	for t.running.Load() != 0 {
		select {
		case <-t.idle:
		case <-stop:
			return false
		}
	}
	return true
}
