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

// A Backoff is how long a client waits before it tries to connect again. The n-th wait is Min doubled n times, at most Max, and
// moved by up to Jitter of itself either way, so that clients of a server that has been restarted do not all come at once.
type Backoff struct {
	Min    time.Duration  // 0: 1 s
	Max    time.Duration  // 0: 5 s
	Jitter float64        // from 0 to 1; 0: 0.5. Use a negative number for none.
	Random func() float64 // from 0 to 1; nil: math/rand/v2
}

// Wait is the time before the n-th attempt in a row, counted from 0.
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

// ClientConfig is how a Client behaves. Its zero value is ready for use.
type ClientConfig struct {
	Namespace string // "": "/"

	// Auth returns the object that is sent with CONNECT, each time anew; nil: none is sent.
	Auth func(ctx context.Context) (json.RawMessage, error)

	Engine engineio.ClientConfig // transports, headers, TLS, limits

	// Local connects to a Server of this process in place of the URL; nil: none. Of Engine, the
	// bounds of the queue still hold.
	Local *Local

	ConnectTimeout time.Duration // for one attempt, up to the server's answer to CONNECT; 0: 20 s

	// Retry is asked before each attempt to connect again: attempt counts from 0 and starts anew after a success; why is what
	// ended the connection or the last attempt. ok false ends the client. nil: Backoff's waits, for ever.
	Retry   func(attempt int, why error) (wait time.Duration, ok bool)
	Backoff Backoff

	// OnConnect is called each time the client is connected, before the first event: the place to join again what a server
	// forgets. OnDisconnect is called after the last event of a connection, OnConnectError after each attempt that failed but
	// the first, whose error Connect returns. They are not called concurrently.
	OnConnect      func(*Socket)
	OnDisconnect   func(Reason, error)
	OnConnectError func(error)

	MaxAttachments int // as in Config
	MaxPending     int // as in Config
	MaxConcurrent  int // as in Config
	MaxAcks        int // as in Config

	Logger *slog.Logger // nil: none
}

// A Client keeps one connection to one namespace of a server, and connects again when it is lost. What is emitted while there
// is none is not kept: Emit returns ErrDisconnected, because only the caller knows whether it is still worth sending later.
//
// Handlers are set with On before Connect. Its methods may be called by any goroutine.
type Client struct {
	url      string
	config   ClientConfig
	limits   *limits
	handlers handlers

	mu      sync.Mutex // guards below
	started bool
	closed  bool
	cancel  context.CancelFunc // of everything the client does
	current *attempt
	done    chan struct{}
	err     error
}

// An attempt is one connection, from dialling to its end.
type attempt struct {
	client  *Client
	socket  *Socket       // set when the server's CONNECT has come
	ready   chan struct{} // closed when the answer to CONNECT has come, or none will
	ended   chan struct{} // closed when the connection has ended and its last event has been handled
	once    sync.Once
	refusal error
	reason  Reason
	cause   error
}

// NewClient returns a client for the Socket.IO server at url, with its path, such as "https://hub.example/socket.io/". It does
// nothing before Connect. Close ends it.
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
	return &Client{
		url: url, config: config,
		limits: newLimits(config.MaxAttachments, config.MaxPending, config.MaxConcurrent, config.MaxAcks, config.Logger),
		done:   make(chan struct{}),
	}
}

// On sets the handler of an event; see Namespace.On.
func (c *Client) On(event string, h Handler) { c.handlers.set(event, &entry{name: event, handle: h}) }

// OnConcurrent sets the handler of an event that is not waited for; see Namespace.OnConcurrent.
func (c *Client) OnConcurrent(event string, h Handler) {
	c.handlers.set(event, &entry{name: event, handle: h, concurrent: true})
}

// OnOther sets the handler of events that have none.
func (c *Client) OnOther(h Handler) { c.handlers.set("", &entry{handle: h}) }

var errStarted = errors.New("socketio: Connect was called before")

// Connect connects and returns when the server has let the client in. Its error is the first attempt's: a *ConnectError from
// the namespace, an *engineio.HandshakeError from the HTTP server, or one of the network; the client has ended then, and a new
// one is needed. ctx bounds this attempt only.
func (c *Client) Connect(ctx context.Context) error { return c.start(ctx, false) }

// Start is Connect for clients that also try again when the first attempt fails: it returns at once.
func (c *Client) Start() error { return c.start(context.Background(), true) }

func (c *Client) start(ctx context.Context, patient bool) error {
	life, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	if c.started || c.closed {
		c.mu.Unlock()
		cancel()
		return errStarted
	}
	c.started, c.cancel = true, cancel
	c.mu.Unlock()
	if patient {
		go c.run(life, nil)
		return nil
	}
	ctx, release := context.WithCancel(ctx)
	defer release()
	stop := context.AfterFunc(life, release) // Close ends the attempt, too.
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
	var why error
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
			why = &engineio.CloseError{Reason: a.reason, Err: a.cause}
		}
		if life.Err() == nil && (a != nil || failures > 0) {
			wait, again := c.retry(max(failures-1, 0), why)
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
			why = ErrDisconnected
			break
		}
		var err error
		if a, err = c.attempt(life); err != nil {
			a, why = nil, err
			failures++
			if life.Err() == nil && c.config.OnConnectError != nil {
				c.config.OnConnectError(err)
			}
		}
	}
	c.end(why)
}

func (c *Client) retry(attempt int, why error) (time.Duration, bool) {
	if c.config.Retry != nil {
		return c.config.Retry(attempt, why)
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

// attempt connects once.
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
			_ = l.send(hello, false) // If the connection has ended, the attempt is told.
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

// refuse settles the attempt, once.
func (a *attempt) refuse(err error) {
	a.once.Do(func() {
		a.refusal = err
		close(a.ready)
	})
}

// connect takes the server's answer to CONNECT.
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

// refused takes a CONNECT_ERROR. Some servers send a string instead of an object.
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

// closed is told of the end of the connection. A socket that was connected has been told, too, and finishes the attempt.
func (a *attempt) closed(_ *conn, reason Reason, err error) {
	a.refuse(&engineio.CloseError{Reason: reason, Err: err})
}

// finish is the socket's last job.
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

// Close disconnects and waits until everything that belongs to the client has ended, handlers too: it must not be called by
// one.
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

// Done is closed when the client has ended: by Close, or because Retry said so.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is why the client has ended, or nil.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Socket is the client's socket while it is connected, else nil. Each connection has a new one.
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
