package mcp

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/identity"
)

// LocalPrincipal is the name of the only principal if no authentication is configured.
const LocalPrincipal = identity.Local

// Session is one agent's connection as the features see it: its identity, its capabilities and the
// state that features keep for it. In the legacy era the handshake makes it, and it ends with
// DELETE, the connection, or idleness. The modern era has no sessions; there each principal has
// one.
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
	values       []sessionValue // few: a slice is smaller than a map
	onClose      []closer       // ascending by n
	nextClose    int
	closed       bool
	done         chan struct{}
}

// sessionValue is a value that a feature keeps under its key.
type sessionValue struct{ key, value any }

// closer is a function of OnClose.
type closer struct {
	n int
	f func()
}

// NewSession makes a session for a principal. If id is empty, the session gets a random id of at
// least 128 bits.
func NewSession(id, principal string) *Session {
	if id == "" {
		id = rand.Text()
	}
	return &Session{id: id, principal: principal, peer: NoPeer, done: make(chan struct{})}
}

// ID returns the session's id. It is a secret between weir and the agent: never log the whole id.
func (s *Session) ID() string { return s.id }

// Principal returns the name of the session's principal.
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

// Client returns the clientInfo and capabilities of the client, nil if it gave none.
func (s *Session) Client() (info, capabilities json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info, s.capabilities
}

// SetClient stores copies of the client's clientInfo and capabilities.
func (s *Session) SetClient(info, capabilities json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = append(json.RawMessage(nil), info...)
	s.capabilities = append(json.RawMessage(nil), capabilities...)
}

// LogLevel returns the level set by logging/setLevel, "" if none was set.
func (s *Session) LogLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logLevel
}

// SetLogLevel sets the least severe level of log messages that the session wants.
func (s *Session) SetLogLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLevel = level
}

// Peer reaches the agent outside any call, for example with list_changed. If there is no such
// channel (the agent has no GET stream open), the transport keeps or drops notifications.
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

// Value returns the value stored under key. If there is none, it stores and returns the result of
// mk; a nil mk only reads. Keys are compared like map keys; use an unexported type.
func (s *Session) Value(key any, mk func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kept := range s.values {
		if kept.key == key {
			return kept.value
		}
	}
	if mk == nil {
		return nil
	}
	v := mk()
	s.values = append(s.values, sessionValue{key, v})
	return v
}

// OnClose registers f to be called when the session ends, or calls it at once if the session has
// ended. f must not block. stop removes f; callers that end before the session must call it, so
// that a long session does not collect functions.
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
	s.onClose = append(s.onClose, closer{n, f})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i, ok := slices.BinarySearchFunc(s.onClose, n, func(c closer, n int) int { return c.n - n }); ok {
			s.onClose = slices.Delete(s.onClose, i, i+1)
		}
	}
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends the session. The functions registered with OnClose run before Close returns, last in
// first out. A second Close does nothing.
func (s *Session) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	last := s.onClose
	s.onClose, s.values = nil, nil
	s.peer = NoPeer
	close(s.done)
	s.mu.Unlock()
	for _, c := range slices.Backward(last) {
		c.f()
	}
}
