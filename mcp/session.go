package mcp

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

// LocalPrincipal is the name of the one principal there is where no
// authentication is configured.
const LocalPrincipal = "local"

// Session is one agent's connection as the features see it: who it is, what it
// can do, and whatever a feature keeps for it. In the legacy era it is made by
// the handshake and ends with DELETE, the connection, or idleness. In the
// modern era, which knows no sessions, there is one for each principal.
//
// All methods are safe for concurrent use.
type Session struct {
	id        string
	principal string

	mu           sync.Mutex // guards below
	version      string
	info         json.RawMessage
	capabilities json.RawMessage
	logLevel     string
	peer         Peer
	values       map[any]any
	onClose      map[int]func()
	nextClose    int
	closed       bool
	done         chan struct{}
}

// NewSession makes a session for a principal. An empty id asks for a new
// random one of 128 bits or more.
func NewSession(id, principal string) *Session {
	if id == "" {
		id = rand.Text()
	}
	return &Session{id: id, principal: principal, peer: NoPeer, done: make(chan struct{})}
}

// ID returns the session's id. It is a secret between weir and the agent:
// never log it whole.
func (s *Session) ID() string { return s.id }

// Principal returns the name of who is behind the session.
func (s *Session) Principal() string { return s.principal }

// Version returns the negotiated version of a legacy session, "" before the
// handshake and in the modern era.
func (s *Session) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// SetVersion sets the negotiated version. The Lifecycle handler does this.
func (s *Session) SetVersion(v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = v
}

// Client returns what the client said of itself: its clientInfo and
// capabilities, nil where it has not.
func (s *Session) Client() (info, capabilities json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info, s.capabilities
}

// SetClient keeps copies of what the client said of itself.
func (s *Session) SetClient(info, capabilities json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = append(json.RawMessage(nil), info...)
	s.capabilities = append(json.RawMessage(nil), capabilities...)
}

// LogLevel returns the level set by logging/setLevel, "" where none was.
func (s *Session) LogLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logLevel
}

// SetLogLevel keeps the least level of log messages that the session wants.
func (s *Session) SetLogLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLevel = level
}

// Peer reaches the agent outside any call: list_changed and the like. Where
// there is no such channel (the agent has no GET stream open), notifications
// are kept or dropped by the transport.
func (s *Session) Peer() Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer
}

// SetPeer sets the session-wide channel. The transport does this once, before
// the session serves anything.
func (s *Session) SetPeer(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer = p
}

// Value returns what is kept under key, made by mk when there is none yet. A
// nil mk only looks. Keys are compared like map keys; use an unexported type.
func (s *Session) Value(key any, mk func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.values[key]; ok || mk == nil {
		return v
	}
	if s.values == nil {
		s.values = map[any]any{}
	}
	v := mk()
	s.values[key] = v
	return v
}

// OnClose has f called when the session ends, at once if it has already. f
// must not block. stop takes f off the list again; whoever ends before the
// session calls it, so that a long session does not collect them.
func (s *Session) OnClose(f func()) (stop func()) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		f()
		return func() {}
	}
	defer s.mu.Unlock()
	n := s.nextClose
	s.nextClose++
	if s.onClose == nil {
		s.onClose = map[int]func(){}
	}
	s.onClose[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.onClose, n)
	}
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends the session: what was registered with OnClose runs, last in
// first out, before Close returns. A second Close does nothing.
func (s *Session) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	fs := s.onClose
	order := slices.Sorted(maps.Keys(fs))
	s.onClose, s.values = nil, nil
	s.peer = NoPeer
	close(s.done)
	s.mu.Unlock()
	for _, n := range slices.Backward(order) {
		fs[n]()
	}
}
