package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// Socket is one peer in one namespace: a server has one per connected client, a client has one.
// All methods are safe for concurrent use.
type Socket struct {
	conn     *conn
	nsp      string
	handlers *handlers
	space    *Namespace // nil in a client
	leave    func(Reason)
	jobs     jobs
	acks     acks

	mu      sync.Mutex // guards below
	id      string
	auth    json.RawMessage
	value   any
	status  status
	goodbye Reason   // the reason that the peer gave
	rooms   []string // in the namespace's adapter; guarded by its lock, not by mu

	over chan struct{} // closed when the socket is disconnected; nil until first asked for
}

type status uint8

const (
	connecting status = iota
	connected
	disconnected
)

func newSocket(c *conn, nsp string, h *handlers) *Socket {
	s := &Socket{conn: c, nsp: nsp, handlers: h}
	s.jobs.init(c)
	return s
}

// ID returns the socket's id. Unlike the id of the Engine.IO session it is not secret.
func (s *Socket) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Namespace returns the namespace's name, such as "/".
func (s *Socket) Namespace() string { return s.nsp }

// Auth returns the data of the client's CONNECT, or {} without any.
func (s *Socket) Auth() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.auth
}

// Handshake returns the HTTP request that opened the connection, or nil in a client.
func (s *Socket) Handshake() *engineio.Handshake { return s.conn.link.Handshake() }

// Admit ends the probation of the socket's connection; see engineio.Probation. A server with
// Probation must call it, in Namespace.Use or later, as soon as it knows the client.
func (s *Socket) Admit() error { return s.conn.link.Admit() }

// Transport returns the transport that carries the connection now.
func (s *Socket) Transport() engineio.Transport { return s.conn.link.Transport() }

// Connected reports whether the socket is connected.
func (s *Socket) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status == connected
}

// SetValue stores a value of the caller with the socket.
func (s *Socket) SetValue(v any) {
	s.mu.Lock()
	s.value = v
	s.mu.Unlock()
}

// Value returns the value of SetValue.
func (s *Socket) Value() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// Context returns a context that ends when the socket is disconnected.
func (s *Socket) Context() context.Context { return (*socketContext)(s) }

// socketContext is a socket's Context. It is the socket itself, because most contexts are never
// requested or waited for.
type socketContext Socket

var _ context.Context = (*socketContext)(nil)

func (c *socketContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *socketContext) Value(any) any { return nil }

func (c *socketContext) Done() <-chan struct{} {
	s := (*Socket)(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = make(chan struct{})
		if s.status == disconnected {
			close(s.over)
		}
	}
	return s.over
}

func (c *socketContext) Err() error {
	s := (*Socket)(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == disconnected {
		return context.Canceled
	}
	return nil
}

// Emit sends an event. It does not block. An event without arguments is sent with a null, because some clients cannot read one
// without.
func (s *Socket) Emit(event string, args ...json.RawMessage) error {
	return s.EmitPayload(event, Payload{Args: args})
}

// EmitPayload is Emit with attachments.
func (s *Socket) EmitPayload(event string, p Payload) error {
	if err := checkName(event); err != nil {
		return err
	}
	m := newDraft(packetEvent, s.nsp, event, p)
	defer m.release()
	return s.send(*m)
}

func checkName(event string) error {
	if event == "" || reserved(event) {
		return fmt.Errorf("socketio: %q is no name for an event: it is reserved", event)
	}
	return nil
}

// send sends a message: at once, or with the other answers to the current events.
func (s *Socket) send(m message) error {
	if !s.Connected() {
		return ErrDisconnected
	}
	if !s.jobs.gathering.Load() {
		return ended(s.conn.link.send(m, false))
	}
	err := s.conn.link.send(m, true)
	if !s.jobs.gathering.Load() {
		s.conn.link.Flush() // the flush may have happened between the two checks
	}
	return ended(err)
}

// ended returns the error of a connection that has ended before its sockets know it.
func ended(err error) error {
	if errors.Is(err, engineio.ErrClosed) {
		return ErrDisconnected
	}
	return err
}

// Disconnect makes the socket leave its namespace. Events emitted before still arrive.
func (s *Socket) Disconnect() {
	if s.Connected() {
		_ = s.conn.link.send(message{kind: packetDisconnect, nsp: s.nsp}, false)
	}
	s.leaveNamespace(ReasonServerDisconnect)
}

// Close closes the connection, including all other sockets on it, after writing the events emitted
// before. Clients usually reconnect; after Disconnect they do not.
func (s *Socket) Close() { s.conn.link.Close() }

// Probe asks the peer for a sign of life and returns nil as soon as anything arrives from it. It
// returns ErrDisconnected if the connection has ended, and ctx's error if nothing arrives in time;
// see engineio.Session.Probe.
func (s *Socket) Probe(ctx context.Context) error {
	return ended(s.conn.link.Probe(ctx))
}

// peerLeft handles a DISCONNECT packet after the events that preceded it. The recorded reason is
// the peer's, even if the connection ends meanwhile.
func (s *Socket) peerLeft() {
	reason := ReasonClientDisconnect
	if s.space == nil {
		reason = ReasonByServer
	}
	s.mu.Lock()
	s.goodbye = reason
	s.mu.Unlock()
	s.stir(job{do: func() { s.leaveNamespace(reason) }})
}

func (s *Socket) leaveNamespace(reason Reason) {
	s.conn.remove(s)
	s.disconnected(reason)
}

// disconnected ends the socket, once.
func (s *Socket) disconnected(reason Reason) {
	s.mu.Lock()
	was := s.status
	if was == disconnected {
		s.mu.Unlock()
		return
	}
	if s.goodbye != "" {
		reason = s.goodbye
	}
	s.status = disconnected
	if s.over != nil {
		close(s.over)
	}
	s.mu.Unlock()
	s.jobs.end(reason == ReasonServerDisconnect || was == connecting)
	if s.space != nil {
		s.space.drop(s)
	}
	s.acks.end()
	if was == connected && s.leave != nil {
		s.jobs.push(job{do: func() { s.leave(reason) }})
		s.jobs.start()
	}
}

// --- emits that want an ack ---

// EmitWithAck sends an event and waits for its ack, until ctx ends or the socket is disconnected.
func (s *Socket) EmitWithAck(ctx context.Context, event string, args ...json.RawMessage) (Payload, error) {
	return s.EmitPayloadWithAck(ctx, event, Payload{Args: args})
}

// EmitPayloadWithAck is EmitWithAck with attachments.
func (s *Socket) EmitPayloadWithAck(ctx context.Context, event string, p Payload) (Payload, error) {
	w := s.acks.waiter()
	id, err := s.emit(event, p, w)
	if err != nil {
		return Payload{}, err
	}
	select {
	case <-w.ready:
		return s.acks.result(w)
	case <-ctx.Done():
		if s.acks.take(id) == nil { // the ack has just come
			<-w.ready
			_, _ = s.acks.result(w)
		}
		return Payload{}, ctx.Err()
	}
}

// EmitFunc sends an event and returns. It calls done once: with the ack, with ErrAckTimeout after
// timeout (0: never), or with ErrDisconnected. done runs in the goroutine of a reader or a timer
// and must not block. If EmitFunc returns an error, done is not called.
func (s *Socket) EmitFunc(timeout time.Duration, event string, p Payload, done func(Payload, error)) error {
	w := &waiter{done: done}
	if timeout > 0 {
		w.until = time.Now().Add(timeout)
	}
	_, err := s.emit(event, p, w)
	return err
}

func (s *Socket) emit(event string, p Payload, w *waiter) (uint64, error) {
	if err := checkName(event); err != nil {
		return 0, err
	}
	if !s.Connected() {
		return 0, ErrDisconnected
	}
	id, err := s.acks.add(w, s.conn.limits.acks)
	if err != nil {
		return 0, err
	}
	m := newDraft(packetEvent, s.nsp, event, p)
	defer m.release()
	m.id = strconv.AppendUint(m.id, id, 10)
	if err := s.conn.link.send(*m, false); err != nil && s.acks.take(id) != nil {
		return 0, err
	}
	return id, nil // an error without a waiter: the waiter has its result already
}

// takeEvent queues an event of the peer for its handler; a nil handler drops it.
func (s *Socket) takeEvent(event *Event, e *entry, size int) {
	if e == nil {
		s.conn.limits.logger.Debug("socketio: an event has no handler", "namespace", s.nsp, "event", event.Name)
		event.done()
		return
	}
	if e.immediate && s.jobs.claim() {
		e.handle(event)
		event.done()
		s.jobs.release()
		return
	}
	s.stir(job{event: event, entry: e, size: size})
}

// stir queues a job of the reader, which starts at the next pause.
func (s *Socket) stir(j job) {
	if s.jobs.push(j) {
		s.conn.stirred = append(s.conn.stirred, s)
	}
}
