package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// Backoff sets how long a client waits before it reconnects. The n-th wait is Min doubled n times,
// at most Max. Jitter varies it in both directions, so that the clients of a restarted server do
// not reconnect at the same moment.
type Backoff struct {
	Min    time.Duration  // 0: 1 s
	Max    time.Duration  // 0: 5 s
	Jitter float64        // from 0 to 1; 0: 0.5. Use a negative number for none.
	Random func() float64 // from 0 to 1; nil: math/rand/v2
}

// Wait returns the wait before the n-th attempt in a row, counted from 0.
func (b Backoff) Wait(attempt int) time.Duration {
	low, high, jitter, random := b.Min, b.Max, b.Jitter, b.Random
	if low <= 0 {
		low = time.Second
	}
	if high <= 0 {
		high = 5 * time.Second
	}
	if jitter == 0 {
		jitter = 0.5
	}
	if random == nil {
		random = rand.Float64
	}
	wait := math.Min(float64(low)*math.Pow(2, float64(attempt)), float64(high))
	if jitter > 0 {
		wait *= 1 + math.Min(jitter, 1)*(2*random()-1)
	}
	return time.Duration(wait)
}

// ClientConfig configures a Client. Its zero value is ready for use.
type ClientConfig struct {
	Namespace string // "": "/"

	// Auth returns the object that is sent with CONNECT; it is called for each attempt. Nil sends
	// none.
	Auth func(ctx context.Context) (json.RawMessage, error)

	Engine engineio.ClientConfig // transports, headers, TLS, limits

	// Local connects to a Server of this process; the URL is then not used. Nil means a network
	// connection. The queue bounds of Engine still apply.
	Local *Local

	ConnectTimeout time.Duration // for one attempt, up to the server's answer to CONNECT; 0: 20 s

	// Retry is called before each reconnect. attempt counts from 0 and is reset after a success;
	// cause is the error that ended the connection or the last attempt. ok false ends the client.
	// If Retry is nil, the client retries without end, with Backoff's waits.
	Retry   func(attempt int, cause error) (wait time.Duration, ok bool)
	Backoff Backoff

	// OnConnect is called each time the client has connected, before the first event: use it to
	// restore state that the server forgot. OnDisconnect is called after the last event of a
	// connection. OnConnectError is called after each failed attempt except the first, whose error
	// Connect returns. These calls never overlap.
	OnConnect      func(*Socket)
	OnDisconnect   func(Reason, error)
	OnConnectError func(error)

	MaxAttachments int // as in Config
	MaxPending     int // as in Config
	MaxConcurrent  int // as in Config
	MaxAcks        int // as in Config

	Logger *slog.Logger // nil: none
}

// Client keeps one connection to one namespace of a server and reconnects when the connection is
// lost. Without a connection, Emit returns ErrDisconnected: the Client does not queue events,
// because only the caller knows whether they are still useful later.
//
// Set handlers with On before Connect. All methods are safe for concurrent use.
type Client struct {
	url      string
	config   ClientConfig
	limits   *limits
	handlers handlers

	mu      sync.Mutex // guards below
	started bool
	closed  bool
	cancel  context.CancelFunc // ends all work of the client
	current *attempt
	done    chan struct{}
	err     error
}

// attempt is one connection, from dialling to its end.
type attempt struct {
	client  *Client
	socket  *Socket       // set by the server's CONNECT
	ready   chan struct{} // closed when the answer to CONNECT has come, or the connection has ended
	ended   chan struct{} // closed when the connection has ended and its last event has been handled
	once    sync.Once
	refusal error
	reason  Reason
	cause   error
}

// NewClient returns a client for the Socket.IO server at url, including its path, such as
// "https://hub.example/socket.io/". It does nothing before Connect. Close ends it.
func NewClient(url string, config ClientConfig) *Client {
	if config.Namespace == "" {
		config.Namespace = mainNamespace
	}
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = 20 * time.Second
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Engine.Logger == nil {
		config.Engine.Logger = config.Logger
	}
	c := &Client{
		url: url, config: config,
		limits: newLimits(config.MaxAttachments, config.MaxPending, config.MaxConcurrent, config.MaxAcks, config.Logger),
		done:   make(chan struct{}),
	}
	c.limits.memory = config.Engine.Memory
	return c
}

// On sets the handler of an event; see Namespace.On.
func (c *Client) On(event string, h Handler) { c.handlers.set(event, &entry{name: event, handle: h}) }

// OnConcurrent sets a handler whose calls may overlap; see Namespace.OnConcurrent.
func (c *Client) OnConcurrent(event string, h Handler) {
	c.handlers.set(event, &entry{name: event, handle: h, concurrent: true})
}

// OnOther sets the handler of events that have no handler of their own.
func (c *Client) OnOther(h Handler) { c.handlers.set("", &entry{handle: h}) }

var errStarted = errors.New("socketio: Connect was called before")

// Connect connects and returns when the server has admitted the client. If the first attempt fails,
// Connect returns its error: a *ConnectError of the namespace, an *engineio.HandshakeError of the
// HTTP server, or a network error. The client has then ended and cannot be reused. ctx bounds the
// first attempt only.
func (c *Client) Connect(ctx context.Context) error { return c.start(ctx, false) }

// Start returns at once. It connects in the background and retries even if the first attempt fails.
func (c *Client) Start() error { return c.start(context.Background(), true) }

func (c *Client) start(ctx context.Context, background bool) error {
	life, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	if c.started || c.closed {
		c.mu.Unlock()
		cancel()
		return errStarted
	}
	c.started, c.cancel = true, cancel
	c.mu.Unlock()
	if background {
		go c.run(life, nil)
		return nil
	}
	ctx, release := context.WithCancel(ctx)
	defer release()
	stop := context.AfterFunc(life, release) // Close also ends the attempt
	defer stop()
	a, err := c.attempt(ctx)
	if err != nil {
		cancel()
		c.end(err)
		return err
	}
	go c.run(life, a)
	return nil
}

// run keeps the client connected until life ends.
func (c *Client) run(life context.Context, a *attempt) {
	var cause error
	for failures := 0; ; {
		if a != nil {
			failures = 0
			select {
			case <-a.ended:
			case <-life.Done():
				a.close()
				<-a.ended
			}
			a.socket.conn.link.Wait()
			cause = &engineio.CloseError{Reason: a.reason, Err: a.cause}
		}
		if life.Err() == nil && (a != nil || failures > 0) {
			wait, again := c.retry(max(failures-1, 0), cause)
			if !again {
				break
			}
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-life.Done():
				timer.Stop()
			}
		}
		if life.Err() != nil {
			cause = ErrDisconnected
			break
		}
		var err error
		if a, err = c.attempt(life); err != nil {
			a, cause = nil, err
			failures++
			if life.Err() == nil && c.config.OnConnectError != nil {
				c.config.OnConnectError(err)
			}
		}
	}
	c.end(cause)
}

func (c *Client) retry(attempt int, cause error) (time.Duration, bool) {
	if c.config.Retry != nil {
		return c.config.Retry(attempt, cause)
	}
	return c.config.Backoff.Wait(attempt), true
}

func (c *Client) end(err error) {
	c.limits.workers.wait()
	c.mu.Lock()
	c.closed, c.err = true, err
	c.mu.Unlock()
	close(c.done)
}

// attempt makes one connection.
func (c *Client) attempt(ctx context.Context) (*attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.ConnectTimeout)
	defer cancel()
	var auth json.RawMessage
	if c.config.Auth != nil {
		var err error
		if auth, err = c.config.Auth(ctx); err != nil {
			return nil, fmt.Errorf("socketio: auth: %w", err)
		}
	}
	a := &attempt{client: c, ready: make(chan struct{}), ended: make(chan struct{})}
	l, err := a.dial(ctx, auth)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.ready:
	case <-ctx.Done():
		a.refuse(fmt.Errorf("socketio: no answer to CONNECT: %w", ctx.Err()))
	}
	if a.refusal != nil {
		l.Close()
		l.Wait()
		return nil, a.refusal
	}
	return a, nil
}

// dial connects and sends the CONNECT.
func (a *attempt) dial(ctx context.Context, auth json.RawMessage) (link, error) {
	c := a.client
	accept := func(l link) *conn {
		co := &conn{host: a, limits: c.limits, link: l}
		a.socket = newSocket(co, c.config.Namespace, &c.handlers)
		a.socket.leave = func(reason Reason) { a.finish(reason) }
		a.socket.auth = auth
		co.add(a.socket)
		return co
	}
	hello := message{kind: packetConnect, nsp: c.config.Namespace, data: auth}
	if c.config.Local != nil {
		l, err := c.config.Local.dial(localBounds{bytes: c.config.Engine.MaxQueueBytes, frames: c.config.Engine.MaxQueueFrames}, accept)
		if err == nil {
			_ = l.send(hello, false) // If the connection has ended, the attempt fails.
		}
		return l, err
	}
	session, err := engineio.Dial(ctx, c.url, c.config.Engine, func(session *engineio.Session) engineio.Receiver {
		co := accept(engineLink{session})
		_ = co.link.send(hello, false)
		return co
	})
	if err != nil {
		return nil, err
	}
	return engineLink{session}, nil
}

// refuse settles the attempt with an error, once.
func (a *attempt) refuse(err error) {
	a.once.Do(func() {
		a.refusal = err
		close(a.ready)
	})
}

// connect handles the server's answer to CONNECT.
func (a *attempt) connect(c *conn, nsp, data []byte) {
	s := a.socket
	var answer struct {
		SID string `json:"sid"`
	}
	if string(nsp) != s.nsp || data == nil || json.Unmarshal(data, &answer) != nil || answer.SID == "" {
		c.link.CloseWith(engineio.ReasonParseError)
		return
	}
	s.mu.Lock()
	if s.status != connecting {
		s.mu.Unlock()
		return
	}
	s.status, s.id = connected, answer.SID
	s.mu.Unlock()
	a.client.mu.Lock()
	a.client.current = a
	a.client.mu.Unlock()
	s.stir(job{do: func() {
		if a.client.config.OnConnect != nil {
			a.client.config.OnConnect(s)
		}
	}})
	a.refuse(nil)
}

// refused handles a CONNECT_ERROR. Some servers send a string instead of an object.
func (a *attempt) refused(_ *conn, nsp, data []byte) {
	if string(nsp) != a.socket.nsp {
		return
	}
	refusal := &ConnectError{}
	if err := json.Unmarshal(data, refusal); err != nil {
		if err := json.Unmarshal(data, &refusal.Message); err != nil {
			refusal.Message = string(data)
		}
	}
	a.refuse(refusal)
}

// closed handles the end of the connection. If a socket was connected, the socket finishes the
// attempt.
func (a *attempt) closed(_ *conn, reason Reason, err error) {
	a.refuse(&engineio.CloseError{Reason: reason, Err: err})
}

// finish runs as the socket's last job.
func (a *attempt) finish(reason Reason) {
	a.reason, a.cause = reason, a.socket.conn.cause()
	a.socket.conn.link.Close()
	if a.client.config.OnDisconnect != nil {
		a.client.config.OnDisconnect(reason, a.cause)
	}
	close(a.ended)
}

// close ends the connection.
func (a *attempt) close() {
	s := a.socket
	if s.Connected() {
		_ = s.conn.link.send(message{kind: packetDisconnect, nsp: s.nsp}, false)
	}
	s.leaveNamespace(ReasonByClient)
	s.conn.link.Close()
}

// Close disconnects and waits until everything that belongs to the client has ended, including
// handlers. Handlers must not call it.
func (c *Client) Close() error {
	c.mu.Lock()
	started, closed, cancel := c.started, c.closed, c.cancel
	c.closed = true
	c.mu.Unlock()
	if !started {
		if !closed {
			close(c.done)
		}
		return nil
	}
	cancel()
	<-c.done
	return nil
}

// Done returns a channel that is closed when the client has ended, by Close or by Retry.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns the error that ended the client, or nil.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Socket returns the current socket, or nil without a connection. Each connection has a new socket.
func (c *Client) Socket() *Socket {
	c.mu.Lock()
	a := c.current
	c.mu.Unlock()
	if a == nil || !a.socket.Connected() {
		return nil
	}
	return a.socket
}

// Emit sends an event; see Socket.Emit.
func (c *Client) Emit(event string, args ...json.RawMessage) error {
	return c.EmitPayload(event, Payload{Args: args})
}

// EmitPayload is Emit with attachments.
func (c *Client) EmitPayload(event string, p Payload) error {
	s := c.Socket()
	if s == nil {
		return ErrDisconnected
	}
	return s.EmitPayload(event, p)
}

// EmitWithAck sends an event and waits for its ack; see Socket.EmitWithAck.
func (c *Client) EmitWithAck(ctx context.Context, event string, args ...json.RawMessage) (Payload, error) {
	return c.EmitPayloadWithAck(ctx, event, Payload{Args: args})
}

// EmitPayloadWithAck is EmitWithAck with attachments.
func (c *Client) EmitPayloadWithAck(ctx context.Context, event string, p Payload) (Payload, error) {
	s := c.Socket()
	if s == nil {
		return Payload{}, ErrDisconnected
	}
	return s.EmitPayloadWithAck(ctx, event, p)
}
