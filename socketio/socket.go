package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// A Socket is one peer in one namespace: a server has one for each client in it, a client has one. Its methods may be called by
// any goroutine.
type Socket struct {
	conn     *conn
	nsp      string
	handlers *handlers
	space    *Namespace // nil in a client
	leave    func(Reason)

	mu      sync.Mutex // guards below
	id      string
	auth    json.RawMessage
	value   any
	status  status
	barred  bool     // events that wait are dropped
	goodbye Reason   // the peer has said it
	rooms   []string // those of the namespace's adapter; guarded by its lock, not by mu

	worker  func()
	queue   []job
	spare   []job // for the queue, empty
	bytes   int   // of the queue
	running bool  // a goroutine works on the queue
	active  int   // concurrent handlers that run
	eased   *sync.Cond

	acks    map[uint64]*waiter
	lastAck uint64

	flush     *time.Timer   // of what is gathered; the worker's
	gathering atomic.Bool   // frames wait for others to go with, until flush fires
	over      chan struct{} // closed when the socket is disconnected; nil: nobody has asked for it
}

type status uint8

const (
	connecting status = iota
	connected
	disconnected
)

// A job is an event with its handler, or something else to be done in turn.
type job struct {
	event *Event
	entry *entry
	size  int
	do    func()
}

func newSocket(c *conn, nsp string, h *handlers) *Socket {
	s := &Socket{conn: c, nsp: nsp, handlers: h}
	s.worker = s.work
	return s
}

// ID is the socket's id. It is not the secret id of the Engine.IO session, and may be told to others.
func (s *Socket) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Namespace is the namespace's name, such as "/".
func (s *Socket) Namespace() string { return s.nsp }

// Auth is what the client sent with its CONNECT, {} where it sent nothing.
func (s *Socket) Auth() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.auth
}

// Handshake is the HTTP request that the connection began with; nil in a client.
func (s *Socket) Handshake() *engineio.Handshake { return s.conn.session.Handshake() }

// Admit ends the probation of the socket's connection; see engineio.Probation. Where a server has one, it is for the
// application to call, in Namespace.Use or later: as soon as it knows who the client is.
func (s *Socket) Admit() error { return s.conn.session.Admit() }

// Transport is what carries the connection at the moment.
func (s *Socket) Transport() engineio.Transport { return s.conn.session.Transport() }

// Connected reports whether the socket is connected.
func (s *Socket) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status == connected
}

// SetValue keeps something of the caller's with the socket.
func (s *Socket) SetValue(v any) {
	s.mu.Lock()
	s.value = v
	s.mu.Unlock()
}

// Value is what SetValue kept.
func (s *Socket) Value() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// Context ends when the socket is disconnected.
func (s *Socket) Context() context.Context { return (*socketContext)(s) }

// A socketContext is a socket's Context. It is the socket itself, because most are never asked for theirs, or never wait for
// its end.
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
	return s.send(encodeEvent(s.nsp, nil, event, p))
}

func checkName(event string) error {
	if event == "" || reserved(event) {
		return fmt.Errorf("socketio: %q is no name for an event: it is reserved", event)
	}
	return nil
}

// send sends frames: at once, or together with what the events that are being worked on give rise to.
func (s *Socket) send(frames []engineio.Frame) error {
	if !s.Connected() {
		return ErrDisconnected
	}
	session := s.conn.session
	if !s.gathering.Load() {
		return session.Send(frames...)
	}
	err := session.SendLater(frames...)
	if !s.gathering.Load() {
		session.Flush() // The flush may have gone by between the two looks.
	}
	return err
}

// Disconnect makes the socket leave its namespace. What was emitted before still arrives.
func (s *Socket) Disconnect() {
	if s.Connected() {
		_ = s.conn.session.Send(encodeControl(packetDisconnect, s.nsp, nil))
	}
	s.leaveNamespace(ReasonServerDisconnect)
}

// Close closes the connection, with all other sockets on it, once what was emitted before is written. Clients usually connect
// again then; Disconnect tells them not to.
func (s *Socket) Close() { s.conn.session.Close() }

// Probe asks the peer for a sign of life and returns nil as soon as anything comes from it. It returns ErrDisconnected where
// the connection has ended, and ctx's error where nothing has come by then; see engineio.Session.Probe.
func (s *Socket) Probe(ctx context.Context) error {
	err := s.conn.session.Probe(ctx)
	if errors.Is(err, engineio.ErrClosed) {
		return ErrDisconnected
	}
	return err
}

// peerLeft handles a DISCONNECT packet, after the events that came before it. If the connection ends meanwhile, the peer has
// left all the same.
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
	s.barred = reason == ReasonServerDisconnect || was == connecting // Nothing that still waits may be done.
	acks := s.acks
	s.acks = nil
	if s.over != nil {
		close(s.over)
	}
	s.easeLocked()
	s.mu.Unlock()
	if s.space != nil {
		s.space.drop(s)
	}
	for _, w := range acks {
		w.settle(Payload{}, ErrDisconnected)
	}
	if was == connected && s.leave != nil {
		s.push(job{do: func() { s.leave(reason) }})
		s.start()
	}
}

// --- acks ---

// A waiter waits for an ack.
type waiter struct {
	done  func(Payload, error)
	timer *time.Timer
	once  sync.Once
}

func (w *waiter) settle(p Payload, err error) {
	w.once.Do(func() {
		if w.timer != nil {
			w.timer.Stop()
		}
		w.done(p, err)
	})
}

// EmitWithAck sends an event and waits for its ack, until ctx ends or the socket is disconnected.
func (s *Socket) EmitWithAck(ctx context.Context, event string, args ...json.RawMessage) (Payload, error) {
	return s.EmitPayloadWithAck(ctx, event, Payload{Args: args})
}

// EmitPayloadWithAck is EmitWithAck with attachments.
func (s *Socket) EmitPayloadWithAck(ctx context.Context, event string, p Payload) (Payload, error) {
	type answer struct {
		payload Payload
		err     error
	}
	answers := make(chan answer, 1)
	id, err := s.emit(event, p, &waiter{done: func(p Payload, err error) { answers <- answer{p, err} }})
	if err != nil {
		return Payload{}, err
	}
	select {
	case a := <-answers:
		return a.payload, a.err
	case <-ctx.Done():
		s.forgetAck(id)
		return Payload{}, ctx.Err()
	}
}

// EmitFunc sends an event and returns. done is called once: with the ack, with ErrAckTimeout after timeout (0: never), or with
// ErrDisconnected. It is called by whatever goroutine brings the news, a reader's or a timer's, and must not block. Where EmitFunc
// returns an error, done is not called.
func (s *Socket) EmitFunc(timeout time.Duration, event string, p Payload, done func(Payload, error)) error {
	w := &waiter{done: done}
	id, err := s.emit(event, p, w)
	if err != nil {
		return err
	}
	if timeout > 0 {
		timer := time.AfterFunc(timeout, func() {
			s.forgetAck(id)
			w.settle(Payload{}, ErrAckTimeout)
		})
		s.mu.Lock()
		if s.acks[id] == w {
			w.timer = timer
		} else {
			timer.Stop() // It has its answer.
		}
		s.mu.Unlock()
	}
	return nil
}

func (s *Socket) emit(event string, p Payload, w *waiter) (uint64, error) {
	if err := checkName(event); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if s.status != connected {
		s.mu.Unlock()
		return 0, ErrDisconnected
	}
	if len(s.acks) >= s.conn.limits.acks {
		s.mu.Unlock()
		return 0, ErrTooManyAcks
	}
	if s.acks == nil {
		s.acks = map[uint64]*waiter{}
	}
	id := s.lastAck
	s.lastAck++
	s.acks[id] = w
	s.mu.Unlock()
	var digits [20]byte
	if err := s.conn.session.Send(encodeEvent(s.nsp, strconv.AppendUint(digits[:0], id, 10), event, p)...); err != nil {
		if s.forgetAck(id) {
			return 0, err
		}
		return id, nil // The waiter has been told already.
	}
	return id, nil
}

// forgetAck reports whether the ack was still awaited.
func (s *Socket) forgetAck(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.acks[id]
	delete(s.acks, id)
	return ok
}

// takeAck gives an ack to who waits for it. One that nobody waits for, because it came late or twice, is dropped.
func (s *Socket) takeAck(id, data []byte, attachments [][]byte) error {
	args, err := splitArray(data)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return nil //nolint:nilerr // An id that we never gave.
	}
	s.mu.Lock()
	w := s.acks[n]
	delete(s.acks, n)
	s.mu.Unlock()
	if w != nil {
		w.settle(Payload{Args: args, Attachments: attachments}, nil)
	}
	return nil
}

// --- events ---

func (s *Socket) takeEvent(id, data []byte, attachments [][]byte, size int) error {
	raw, args, err := splitEvent(data)
	if err != nil {
		return err
	}
	name, e, err := s.handlers.find(raw)
	if err != nil {
		return err
	}
	if e == nil {
		s.conn.limits.logger.Debug("socketio: nobody handles an event", "namespace", s.nsp, "event", name)
		return nil
	}
	event := &Event{Name: name, Payload: Payload{Args: args, Attachments: attachments}, socket: s}
	if id != nil {
		event.id = id
	}
	s.stir(job{event: event, entry: e, size: size})
	return nil
}

// stir pushes a job of the reader's, to be started at its next pause.
func (s *Socket) stir(j job) {
	if s.push(j) {
		s.conn.stirred = append(s.conn.stirred, s)
	}
}

// push queues a job and reports whether somebody must start the work. If there is too much of it already, push blocks, which
// is how a peer that is too fast is slowed down: only the reader pushes events, so only the reader blocks.
func (s *Socket) push(j job) bool {
	limits := s.conn.limits
	s.mu.Lock()
	for j.event != nil && s.status != disconnected && len(s.queue) > 0 && (len(s.queue) >= limits.pending || s.bytes+j.size > limits.pendingBytes) {
		s.startLocked()
		s.waitEasedLocked()
	}
	defer s.mu.Unlock()
	if j.event != nil && s.status == disconnected {
		return false
	}
	s.queue = append(s.queue, j)
	s.bytes += j.size
	return len(s.queue) == 1 && !s.running
}

// start begins to work on the queue, unless somebody does.
func (s *Socket) start() {
	s.mu.Lock()
	s.startLocked()
	s.mu.Unlock()
}

func (s *Socket) startLocked() {
	if s.running || len(s.queue) == 0 {
		return
	}
	s.running = true
	s.conn.limits.workers.run(s.worker)
}

// flushAfter is how long an answer waits at most for those of the events behind it, if the next handler takes its time.
const flushAfter = time.Millisecond

// work runs jobs in order until there are none.
func (s *Socket) work() {
	var jobs []job
	for {
		s.mu.Lock()
		s.keepLocked(jobs)
		jobs = s.queue
		if len(jobs) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.queue, s.spare, s.bytes = s.spare, nil, 0
		s.easeLocked()
		s.mu.Unlock()
		for i := range jobs {
			if len(jobs) > 1 {
				s.gather()
			}
			j := jobs[i]
			jobs[i] = job{}
			if i == len(jobs)-1 && j.do == nil && j.entry.concurrent {
				s.handOn(len(jobs))
				if s.own(jobs) {
					s.handle(j)
					return
				}
			}
			s.run(j)
		}
		s.handOn(len(jobs))
	}
}

// maxSpare is how many places of a queue are kept for what comes next.
const maxSpare = 16

// keepLocked keeps the room of jobs that are done. A worker that has had none yet has none to keep.
func (s *Socket) keepLocked(jobs []job) {
	if cap(jobs) > 0 && cap(jobs) <= maxSpare {
		s.spare = jobs[:0]
	}
}

// handOn sends what gather has kept.
func (s *Socket) handOn(jobs int) {
	if jobs > 1 {
		s.gathering.Store(false)
		s.flush.Stop()
		s.conn.session.Flush()
	}
}

// own reports whether the worker may run a concurrent job, the last there is, itself, instead of leaving it to another. If so,
// it is no longer the worker of the queue: what comes now has its own, and the room of its jobs.
func (s *Socket) own(jobs []job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.barred || len(s.queue) > 0 || s.active >= s.conn.limits.concurrent {
		return false
	}
	s.active++
	s.running = false
	s.keepLocked(jobs)
	return true
}

// gather lets what is sent from now on wait for a common write, but not for long.
func (s *Socket) gather() {
	if s.gathering.Load() {
		return
	}
	s.gathering.Store(true)
	if s.flush == nil {
		s.flush = time.AfterFunc(flushAfter, func() {
			s.gathering.Store(false)
			s.conn.session.Flush()
		})
		return
	}
	s.flush.Reset(flushAfter)
}

func (s *Socket) run(j job) {
	if j.do != nil {
		j.do()
		return
	}
	s.mu.Lock()
	barred := s.barred
	s.mu.Unlock()
	switch {
	case barred:
	case j.entry.concurrent:
		s.runConcurrently(j)
	default:
		j.entry.handle(j.event)
	}
}

// runConcurrently starts the handler as soon as there are few enough of them.
func (s *Socket) runConcurrently(j job) {
	s.mu.Lock()
	for s.active >= s.conn.limits.concurrent {
		s.waitEasedLocked()
	}
	s.active++
	s.mu.Unlock()
	s.conn.limits.workers.run(func() { s.handle(j) })
}

// handle runs the handler of one of the active jobs.
func (s *Socket) handle(j job) {
	j.entry.handle(j.event)
	s.mu.Lock()
	s.active--
	s.easeLocked()
	s.mu.Unlock()
}

// waitEasedLocked waits until there is less to do.
func (s *Socket) waitEasedLocked() {
	if s.eased == nil {
		s.eased = sync.NewCond(&s.mu)
	}
	s.eased.Wait()
}

func (s *Socket) easeLocked() {
	if s.eased != nil {
		s.eased.Broadcast()
	}
}
