package engineio

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"github.com/gorilla/websocket"
)

var (
	errHeartbeatDirection = errors.New("the client sent a ping: pings are the server's")
	errSecondOpen         = errors.New("the peer opened a session that is open")

	pingFrame  = controlFrame(packetPing, "")
	noopFrame  = controlFrame(packetNoop, "")
	probeFrame = controlFrame(packetPong, probe)
)

// Server serves Engine.IO clients. It is an http.Handler for one path, such as /engine.io/ or
// /socket.io/; it does not check the path itself.
//
// A held GET takes up to PingInterval. For held GETs the server extends the deadlines of
// http.Server.ReadTimeout and WriteTimeout. This needs http.ResponseController. A middleware that
// wraps the ResponseWriter without an Unwrap method hides it; the timeouts must then be longer than
// PingInterval. WebSockets also need http.Hijacker, which HTTP/2 does not have.
type Server struct {
	config   Config
	env      *environment
	upgrader websocket.Upgrader

	mu        sync.Mutex // guards below
	sessions  map[string]*Session
	newcomers newcomers
	shut      bool
}

// NewServer returns a server. It panics if config.Accept is nil. Shutdown ends it.
func NewServer(config Config) *Server {
	if config.Accept == nil {
		panic("engineio: Config.Accept is nil: it is what takes the messages of a session")
	}
	config = config.withDefaults()
	s := &Server{config: config, sessions: map[string]*Session{}}
	s.env = &environment{
		interval:    config.PingInterval,
		timeout:     config.PingTimeout,
		maxMessage:  config.MaxPayload,
		maxPayload:  config.MaxPayload,
		queueBytes:  config.MaxQueueBytes,
		queueFrames: config.MaxQueueFrames,
		memory:      config.Memory,
		logger:      config.Logger,
		tasks:       tasks{idle: make(chan struct{}, 1)},
		forget:      s.forget,
		probation:   config.Probation,
		admit:       s.admit,
	}
	s.upgrader = websocket.Upgrader{
		HandshakeTimeout: config.UpgradeTimeout,
		WriteBufferPool:  noBuffers{},
		CheckOrigin:      func(*http.Request) bool { return true }, // the server has checked it for both transports
		Error: func(w http.ResponseWriter, _ *http.Request, _ int, _ error) {
			refuse(w, codeBadRequest)
		},
	}
	return s
}

// Len returns the number of sessions, including those on probation.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Shutdown refuses new sessions, closes all sessions with ReasonShutdown and waits until everything
// that belongs to them has ended. If ctx ends first, Shutdown cuts the connections and returns
// ctx's error. After nil, all receivers have been notified.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.shut = true
	all := make([]*Session, 0, len(s.sessions))
	for _, session := range s.sessions {
		all = append(all, session)
	}
	s.mu.Unlock()
	for _, session := range all {
		session.end(ReasonShutdown, nil, graceful)
	}
	if s.env.tasks.wait(ctx.Done()) {
		return nil
	}
	for _, session := range all {
		session.mu.Lock()
		conn, ok := session.carrier.(*wsConn)
		session.mu.Unlock()
		if ok {
			conn.abort()
		}
	}
	return ctx.Err()
}

// ServeHTTP answers handshakes, polls, POSTs and WebSocket upgrades.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	s.config.CORS.answer(w, r)
	if r.Method == http.MethodOptions {
		s.config.CORS.preflight(w, r)
		return
	}
	query := r.URL.Query()
	wantsWS := websocket.IsWebSocketUpgrade(r)
	transport := Transport(query.Get("transport"))
	if transport != Polling && transport != WebSocket {
		refuse(w, codeTransportUnknown)
		return
	}
	if !s.originAllowed(r) {
		refuse(w, codeForbidden)
		return
	}
	if (transport == WebSocket) != wantsWS {
		refuse(w, codeBadRequest)
		return
	}
	sid := query.Get("sid")
	switch {
	case sid == "":
		s.handshake(w, r, query, transport)
	case wantsWS:
		s.serveUpgrade(w, r, sid)
	default:
		s.servePolling(w, r, sid)
	}
}

func (s *Server) originAllowed(r *http.Request) bool {
	if r.Header.Get("Origin") == "" {
		return true
	}
	if s.config.CheckOrigin != nil {
		return s.config.CheckOrigin(r)
	}
	return originAllowed(s.config.CORS, r)
}

// handshake opens a session.
func (s *Server) handshake(w http.ResponseWriter, r *http.Request, query url.Values, transport Transport) {
	if r.Method != http.MethodGet {
		refuse(w, codeBadMethod)
		return
	}
	if query.Get("EIO") != protocolVersion {
		refuse(w, codeUnsupportedVersion)
		return
	}
	var value any
	if s.config.Authenticate != nil {
		var refusal *Refusal
		if value, refusal = s.config.Authenticate(r); refusal != nil {
			refusal.write(w)
			return
		}
	}
	session, refusal := s.newSession(r, value)
	if session == nil {
		w.Header().Set("Retry-After", retryAfter)
		writeJSON(w, http.StatusServiceUnavailable, refusalBody(codeBadRequest, refusal))
		return
	}
	defer s.env.tasks.finish()
	if transport == WebSocket {
		s.openWebSocket(w, r, session)
		return
	}
	opening := s.env.opening(session.id, !s.config.NoUpgrade)
	session.begin(s.config.Accept)
	writePayload(w, append([]byte{packetOpen}, opening...))
}

// retryAfter is the Retry-After value of a full server, in seconds.
const retryAfter = "5"

// newSession counts a new session, or returns why it is refused.
func (s *Server) newSession(r *http.Request, value any) (_ *Session, refusal string) {
	session := &Session{
		env:       s.env,
		id:        s.config.NewID(),
		handshake: newHandshake(r, value),
	}
	session.carrier = &polling{session: session} // also until a WebSocket arrives
	probation := s.config.Probation
	if probation != nil && (probation.Exempt == nil || !probation.Exempt(session.handshake)) {
		session.address = probation.Address(session.handshake)
		session.probation.Store(true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shut:
		return nil, "The server is shutting down"
	case session.probation.Load():
		if refusal := s.newcomers.enter(probation, session.address); refusal != "" {
			return nil, refusal
		}
	case len(s.sessions)-s.newcomers.all >= s.config.MaxSessions:
		return nil, "Too many sessions"
	}
	s.sessions[session.id] = session
	s.env.tasks.running.Add(1) // until the handshake is done: Shutdown waits for it
	session.mu.Lock()
	session.heart.start(s.env.interval, s.env.interval, session.beat)
	session.mu.Unlock()
	return session, ""
}

// newID returns 120 random bits: the id is the only proof that a request belongs to the session.
func newID() string {
	var random [15]byte
	_, _ = rand.Read(random[:]) // never fails: the program would have ended
	return base64.RawURLEncoding.EncodeToString(random[:])
}

func (s *Server) session(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *Server) forget(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session.id] != session {
		return
	}
	delete(s.sessions, session.id)
	if session.probation.Load() {
		s.newcomers.leave(session.address)
	}
}

// opening returns the data of the open packet: exactly these five members.
func (e *environment) opening(sid string, upgrade bool) []byte {
	upgrades := []Transport{}
	if upgrade {
		upgrades = append(upgrades, WebSocket)
	}
	data, err := json.Marshal(opening{
		SID: sid, Upgrades: upgrades,
		PingInterval: e.interval.Milliseconds(), PingTimeout: e.timeout.Milliseconds(), MaxPayload: e.maxMessage,
	})
	if err != nil {
		panic("engineio: " + err.Error()) // strings and integers always encode
	}
	return data
}

type opening struct {
	SID          string      `json:"sid"`
	Upgrades     []Transport `json:"upgrades"`
	PingInterval int64       `json:"pingInterval"` // milliseconds
	PingTimeout  int64       `json:"pingTimeout"`  // milliseconds
	MaxPayload   int         `json:"maxPayload"`
}

// openWebSocket starts a session on a WebSocket. A new goroutine reads the connection, so that the
// HTTP server's goroutine ends and releases its buffers.
func (s *Server) openWebSocket(w http.ResponseWriter, r *http.Request, session *Session) {
	g, err := s.upgrader.Upgrade(hijacker{w}, r, s.upgradeHeader(w))
	if err != nil {
		session.end(ReasonTransportError, err, aborted)
		s.config.Logger.Debug("engineio: WebSocket handshake failed", "remote", r.RemoteAddr, "error", err)
		return
	}
	conn := serverConn(g.NetConn(), s.config.MaxPayload)
	conn.session = session
	session.mu.Lock()
	session.carrier = conn
	session.mu.Unlock()
	_ = session.Send(controlFrame(packetOpen, string(s.env.opening(session.id, false))))
	session.begin(s.config.Accept)
	s.env.tasks.Go(func() { takeReading(session, conn).loop() })
}

// upgradeHeader returns the headers set by a wrapping handler and the CORS headers. gorilla writes
// the response of an upgrade itself and needs them.
func (s *Server) upgradeHeader(w http.ResponseWriter) http.Header {
	header := w.Header().Clone()
	header.Del("Cache-Control")
	return header
}

// --- responses ---

func refuse(w http.ResponseWriter, code errorCode) {
	writeJSON(w, code.status(), refusalBody(code, code.message()))
}

func refusalBody(code errorCode, message string) []byte {
	body, err := json.Marshal(struct {
		Code    errorCode `json:"code"`
		Message string    `json:"message"`
	}{code, message})
	if err != nil {
		panic("engineio: " + err.Error())
	}
	return body
}

func (f *Refusal) write(w http.ResponseWriter) {
	for name, values := range f.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	body, status := f.Body, f.Status
	if status == 0 {
		status = http.StatusForbidden
	}
	if body == nil {
		body = []byte(`{"code":4,"message":"Forbidden"}`)
	}
	writeJSON(w, status, body)
}
