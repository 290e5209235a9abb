package engineio

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Session is one Engine.IO session of a server or a client. All methods are safe for concurrent
// use.
type Session struct {
	env       *environment
	id        string
	handshake *Handshake // nil in a client
	receiver  Receiver
	keeper    keeper // receiver, if it is one

	receiving  sync.Mutex  // held while packets are passed to the receiver: around an upgrade, a POST and the WebSocket may overlap
	delivering atomic.Bool // the receiver runs, so this side does not read
	over       atomic.Bool // the session has ended: state is no longer open
	listening  atomic.Bool // a Probe waits for sign

	probation atomic.Bool // server: waits for Admit; written under Server.mu
	address   string      // counts for this address on probation

	mu sync.Mutex // guards below; never held while a Receiver is called or the network may block

	state  state
	reason Reason
	err    error
	done   chan struct{} // closed when the session has ended; nil: no caller has asked for it

	queue   queue
	heart   heartbeat
	carrier carrier
	sign    chan struct{} // closed when bytes arrive; nil: no Probe waits
}

type state uint8

const (
	open   state = iota
	ending       // Closed has been announced; queued frames may still be written
	ended
)

// carrier moves the packets of a session. An upgrade replaces it.
type carrier interface {
	transport() Transport
	// flushLocked starts to send the queue and does not block. The caller holds Session.mu;
	// flushLocked unlocks it.
	flushLocked()
	// endLocked notifies the peer that the session has ended. The caller holds Session.mu;
	// endLocked unlocks it.
	endLocked(how manner)
}

// environment holds the settings that the sessions of a server share. A client's session has its
// own.
type environment struct {
	client            bool // the session is a client's
	interval, timeout time.Duration
	maxMessage        int // bytes read at once
	maxPayload        int // bytes sent in one poll or POST
	maxFrame          int // largest message in bytes that the peer accepts; 0: any
	queueBytes        int
	queueFrames       int
	memory            *memory.Account // nil: nothing is counted
	logger            *slog.Logger
	tasks             tasks
	forget            func(*Session) // the session's id is no longer needed
	probation         *Probation     // nil: there is none
	admit             func(*Session) error
}

// closeTimeout bounds how long an ended session may write its queue and wait for its peer to leave.
const closeTimeout = 2 * time.Second

// shutdownTimeout bounds how long a server that ends waits for a notified peer to leave.
const shutdownTimeout = 500 * time.Millisecond

// ID returns the session's id. It is a secret: a process that knows it can act as the client.
func (s *Session) ID() string { return s.id }

// Handshake returns the request that opened the session, or nil in a client. It must not be
// changed.
func (s *Session) Handshake() *Handshake { return s.handshake }

// Wait returns when the session has ended and, in a client, all its goroutines have.
func (s *Session) Wait() {
	<-s.Done()
	if s.env.client {
		s.env.tasks.wait(nil)
	}
}

// Done returns a channel that is closed when the session has ended.
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

// Err returns why the session has ended, a *CloseError, or nil while it is open.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == open {
		return nil
	}
	return &CloseError{Reason: s.reason, Err: s.err}
}

// Transport returns the transport that carries the session now.
func (s *Session) Transport() Transport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carrier.transport()
}

// Send queues frames as one unit: no other frame comes between them. It does not block. If the queue
// is full, Send closes the session with ReasonSlowConsumer and returns ErrSlowConsumer.
func (s *Session) Send(frames ...Frame) error {
	if err := s.enqueue(frames); err != nil {
		return err
	}
	s.Flush()
	return nil
}

// SendLater queues like Send and does not wake the writer: the next Flush or Send does. It is for
// callers that are about to send more. They must call Flush in the end.
func (s *Session) SendLater(frames ...Frame) error { return s.enqueue(frames) }

// Reserve counts size bytes of a large message before it is made, and returns ErrNoRoom if there is no room for them. The
// caller calls Send or SendLater next.
func (s *Session) Reserve(size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == open && size > memory.Free && !s.queue.reserve(size, s.env.memory) {
		return ErrNoRoom
	}
	return nil
}

func (s *Session) enqueue(frames []Frame) (err error) {
	defer func() {
		if err != nil {
			s.mu.Lock()
			s.queue.uncount()
			s.mu.Unlock()
		}
	}()
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
	// One unit may exceed the bound; it must not wait with another.
	if s.queue.frames > 0 && s.queueFull(len(frames), size) {
		s.mu.Unlock()
		s.end(ReasonSlowConsumer, nil, aborted)
		return ErrSlowConsumer
	}
	if !s.queue.reserve(size, s.env.memory) {
		s.mu.Unlock()
		if large(frames) {
			return ErrNoRoom
		}
		s.end(ReasonSlowConsumer, nil, aborted) // its queue takes no more room, so it is full
		return ErrSlowConsumer
	}
	s.queue.add(frames, size)
	s.mu.Unlock()
	return nil
}

// large reports whether one of the frames has more bytes than are free.
func large(frames []Frame) bool {
	return slices.ContainsFunc(frames, func(f Frame) bool { return f.size() > memory.Free })
}

// Flush starts to send the queue. It does not block.
func (s *Session) Flush() {
	s.mu.Lock()
	if len(s.queue.items) == 0 && s.state == open {
		s.mu.Unlock()
		return
	}
	s.carrier.flushLocked()
}

// Close ends the session with ReasonForcedClose. The queue is still sent, in the background and for
// a bounded time.
func (s *Session) Close() { s.end(ReasonForcedClose, nil, graceful) }

// CloseWith is like Close with a reason of the caller.
func (s *Session) CloseWith(reason Reason) { s.end(reason, nil, graceful) }

// manner is the way a session ends.
type manner uint8

const (
	graceful manner = iota // the queue is still sent
	aborted                // nothing more is sent
	byPeer                 // the peer closed the session
)

// end ends the session once; further calls do nothing.
func (s *Session) end(reason Reason, err error, how manner) {
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return
	}
	s.state, s.reason, s.err = ending, reason, err
	s.heart.timer.Stop()
	if how != graceful {
		s.queue.drop()
	}
	s.over.Store(true)
	if s.done != nil {
		close(s.done)
	}
	if receiver := s.receiver; receiver != nil {
		s.env.tasks.Go(func() { receiver.Closed(reason, err) })
	}
	s.env.logger.Debug("engineio: session ended", "reason", string(reason), "error", err)
	s.carrier.endLocked(how)
}

// begin obtains the receiver. If the session has ended meanwhile, begin notifies the receiver.
func (s *Session) begin(accept func(*Session) Receiver) {
	receiver := accept(s)
	s.mu.Lock()
	s.receiver = receiver
	s.keeper, _ = receiver.(keeper)
	over, reason, err := s.state != open, s.reason, s.err
	s.mu.Unlock()
	if over {
		s.env.tasks.Go(func() { receiver.Closed(reason, err) })
	}
}

func (s *Session) isOpen() bool { return !s.over.Load() }

// --- receiving ---

// deliver passes the packets of one poll or POST to the receiver. It reports false if one of them
// violates the protocol.
func (s *Session) deliver(packets []packet) bool {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	defer s.pause()
	for _, p := range packets {
		if !s.receive(p) {
			return p.kind == packetClose || p.kind == packetMessage
		}
	}
	return true
}

// handOver passes one packet of a WebSocket to the receiver.
func (s *Session) handOver(p packet) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if !s.receive(p) {
		return ErrClosed
	}
	return nil
}

// pause notifies the receiver that all available messages have been delivered.
func (s *Session) pause() {
	s.delivering.Store(true)
	s.receiver.Pause()
	s.delivering.Store(false)
}

// receive handles one packet of the peer and reports whether the session continues. The caller
// holds s.receiving.
func (s *Session) receive(p packet) bool {
	switch p.kind {
	case packetMessage:
		s.delivering.Store(true)
		if p.hold != nil {
			s.keeper.Keep(p.data, p.binary, p.hold.Release)
		} else {
			s.receiver.Message(p.data, p.binary)
		}
		s.delivering.Store(false)
		return s.isOpen()
	case packetPong:
		s.mu.Lock()
		if s.state == open {
			s.heart.gotPong(s.env.interval)
		}
		s.mu.Unlock()
		return true
	case packetClose:
		s.end(ReasonTransportClose, nil, byPeer)
		return false
	case packetPing:
		if s.env.client {
			s.pong(p.data)
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

// --- heartbeat ---

// pong answers a server's ping.
func (s *Session) pong(data []byte) {
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return
	}
	s.heart.gotPing(s.env.interval, s.env.timeout)
	s.queue.addControl(controlFrame(packetPong, string(data)))
	s.mu.Unlock()
	s.Flush()
}

// beat runs when the heartbeat timer fires.
func (s *Session) beat() {
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return
	}
	what := s.heart.server
	if s.env.client {
		what = s.heart.client
	}
	switch what(s.env.timeout, s.delivering.Load()) {
	case pulsePing:
		s.queue.addControl(pingFrame)
		s.mu.Unlock()
		s.Flush()
	case pulseDead:
		s.mu.Unlock()
		s.end(ReasonPingTimeout, nil, aborted)
	default:
		s.mu.Unlock()
	}
}

// Probe pings the peer and returns nil as soon as anything arrives from it. It returns ctx's error
// if nothing arrives in time, and ErrClosed if the session has ended. Neither error changes the
// session: the limit of PingTimeout still applies.
func (s *Session) Probe(ctx context.Context) error {
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return ErrClosed
	}
	if s.sign == nil {
		s.sign = make(chan struct{})
		s.listening.Store(true)
	}
	sign := s.sign
	// The heartbeat ignores an unexpected pong, so its next ping stays due as it was.
	s.queue.addControl(pingFrame)
	s.mu.Unlock()
	s.Flush()
	if s.delivering.Load() {
		return nil // the receiver of this side blocks the reader: the peer is not silent
	}
	select {
	case <-sign:
		return nil
	case <-s.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hear records that bytes have arrived from the peer.
func (s *Session) hear() {
	if !s.listening.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sign != nil {
		close(s.sign)
		s.sign = nil
		s.listening.Store(false)
	}
}
