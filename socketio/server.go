package socketio

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// Default values of Config.
const (
	defaultConnectTimeout = 45 * time.Second
	defaultMaxAttachments = 64
	defaultMaxPending     = 1024
	defaultMaxConcurrent  = 64
	defaultMaxAcks        = 4096

	defaultAttachmentBytes = 16 << 20
	defaultPendingBytes    = 4 << 20
)

// Config configures a Server. Its zero value is ready for use.
type Config struct {
	// Engine configures the layer below: heartbeat, payloads, queues, origins, CORS and
	// Authenticate. Its Accept is not used.
	Engine engineio.Config

	ConnectTimeout time.Duration // for a connection to join its first namespace; 0: 45 s
	MaxAttachments int           // of one packet; 0: 64. Together they have at most 16 MiB.
	MaxPending     int           // events of one socket that wait for their handler before its connection is no longer read; 0: 1024
	MaxConcurrent  int           // handlers of OnConcurrent that run for one socket at the same time; 0: 64
	MaxAcks        int           // emits of one socket that wait for an ack; 0: 4096

	// Immediate names events whose handlers of Namespace.On never block: they wait for no peer, no ack
	// and no lock that is held across such a wait. If no earlier event of the socket is unfinished, the
	// goroutine that has received the event runs the handler, without waking another one. That may be
	// the goroutine of an in-process client that emits the event. nil: none.
	Immediate []string

	Logger *slog.Logger // nil: the one of Engine, or none
}

// Server serves Socket.IO clients. It is an http.Handler for one path, usually /socket.io/; the
// notes on HTTP servers in engineio.Server apply. Set up namespaces and their handlers before it
// serves.
type Server struct {
	engine  *engineio.Server
	limits  *limits
	timeout time.Duration
	bounds  localBounds // for messages to in-process clients

	mu     sync.RWMutex // guards below
	spaces map[string]*Namespace
	locals map[*localEnd]struct{} // in-process connections
	shut   bool                   // new in-process connections are refused
}

// NewServer returns a server with the namespace "/". Shutdown ends it.
func NewServer(config Config) *Server {
	if config.Logger == nil {
		config.Logger = config.Engine.Logger
	}
	s := &Server{
		limits:  newLimits(config.MaxAttachments, config.MaxPending, config.MaxConcurrent, config.MaxAcks, config.Logger),
		timeout: config.ConnectTimeout,
		spaces:  map[string]*Namespace{},
		locals:  map[*localEnd]struct{}{},
		bounds:  localBounds{bytes: config.Engine.MaxQueueBytes, frames: config.Engine.MaxQueueFrames, message: config.Engine.MaxPayload, memory: config.Engine.Memory},
	}
	s.limits.immediate, s.limits.memory = config.Immediate, config.Engine.Memory
	if s.timeout <= 0 {
		s.timeout = defaultConnectTimeout
	}
	engine := config.Engine
	engine.Logger = s.limits.logger
	engine.Accept = s.accept
	s.engine = engineio.NewServer(engine)
	s.Of(mainNamespace)
	return s
}

func newLimits(attachments, pending, concurrent, acks int, logger *slog.Logger) *limits {
	or := func(n, otherwise int) int {
		if n > 0 {
			return n
		}
		return otherwise
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &limits{
		attachments:     or(attachments, defaultMaxAttachments),
		attachmentBytes: defaultAttachmentBytes,
		pending:         or(pending, defaultMaxPending),
		pendingBytes:    defaultPendingBytes,
		concurrent:      or(concurrent, defaultMaxConcurrent),
		acks:            or(acks, defaultMaxAcks),
		logger:          logger,
		workers:         newWorkers(),
	}
}

// ServeHTTP handles the requests of Engine.IO.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.engine.ServeHTTP(w, r) }

// Connections returns the number of connections, in any namespace or none.
func (s *Server) Connections() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.engine.Len() + len(s.locals)
}

// Of returns the namespace of a name such as "/chat". It creates the namespace on first use.
func (s *Server) Of(name string) *Namespace {
	if name == "" || name[0] != '/' {
		name = "/" + name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.spaces[name]
	if n == nil {
		n = newNamespace(name, s.limits)
		s.spaces[name] = n
	}
	return n
}

// Shutdown ends all connections, refuses new ones and waits until all handlers have returned, or
// until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.endLocals()
	if err := s.engine.Shutdown(ctx); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		s.limits.workers.wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) accept(session *engineio.Session) engineio.Receiver {
	return s.newConn(engineLink{session})
}

func (s *Server) newConn(l link) *conn {
	c := &conn{host: s, limits: s.limits, link: l}
	c.timer = time.AfterFunc(s.timeout, func() { l.CloseWith(ReasonConnectTimeout) })
	return c
}

// connect admits a peer to a namespace or refuses it.
func (s *Server) connect(c *conn, nsp, data []byte) {
	s.mu.RLock()
	n := s.spaces[string(nsp)]
	s.mu.RUnlock()
	if n == nil {
		_ = c.link.send(message{kind: packetConnectError, nsp: string(nsp), data: []byte(`{"message":"Invalid namespace"}`)}, false)
		return
	}
	socket := newSocket(c, n.name, &n.handlers)
	socket.space, socket.leave = n, func(reason Reason) { n.left(socket, reason) }
	socket.id = newID()
	socket.auth = json.RawMessage(`{}`)
	if data != nil {
		socket.auth = bytes.Clone(data)
	}
	if !c.add(socket) {
		return // it is connected already
	}
	socket.stir(job{do: func() { n.admit(socket) }})
}

// refused handles a packet that only servers send.
func (s *Server) refused(c *conn, _, _ []byte) { c.link.CloseWith(engineio.ReasonParseError) }

func (s *Server) closed(*conn, Reason, error) {}

// newID returns 120 random bits.
func newID() string {
	var random [15]byte
	_, _ = rand.Read(random[:]) // never fails: the program would have ended
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// refusal returns the data of a CONNECT_ERROR.
func refusal(err error) []byte {
	refused := &ConnectError{Message: refusedMessage}
	if typed := (*ConnectError)(nil); errors.As(err, &typed) {
		refused = typed
	}
	data, err := json.Marshal(refused)
	if err != nil { // its Data is not JSON
		data, _ = json.Marshal(&ConnectError{Message: refused.Message})
	}
	return data
}
