package hub

import (
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
)

// session is one connection in the namespace.
type session struct {
	socket  *socketio.Socket
	sid     string
	version smcp.Version
	said    string // the version as the peer said it; "" for none
	own     bool   // of this process, see Hub.Attach

	// Guarded by Hub.mu.
	grant   Grant
	access  *access // that grant is of
	dialect smcp.Dialect
	role    smcp.Role         // kept until the connection ends
	name    string            // likewise
	office  *office           // nil: in none
	mcp     bool              // knows client:mcp
	key     ed25519.PublicKey // the one that it has proven; nil: none
	nonce   string            // to be signed, once
	proof   *time.Timer       // ends a connection without proof; nil: needs none
	since   time.Time
	// instance is the process that the Computer with the key has said it is, and
	// ousted the one whose connection it has replaced.
	instance, ousted string
	calls            map[*call]struct{} // in flight, of an Agent
	serving          int                // in flight, to a Computer
	ended            bool
}

func sessionOf(e *socketio.Event) *session {
	s, _ := e.Socket().Value().(*session)
	return s
}

// noteDialect notes what an event tells of the peer's dialect and returns it.
func (s *session) noteDialect(h *Hub, event string, payload json.RawMessage) smcp.Dialect {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.dialect = s.dialect.Hear(event, payload)
	return s.dialect
}

// noteCallDialect is noteDialect for a client:* event whose fields have been read.
func (s *session) noteCallDialect(h *Hub, event string, agent, robot []byte) smcp.Dialect {
	h.mu.Lock()
	defer h.mu.Unlock()
	if event == smcp.EventGetMCPConfig || robot != nil && agent == nil {
		s.dialect = s.dialect.Hear(smcp.EventGetMCPConfig, nil)
	}
	return s.dialect
}

// logLevel is how loud the session's coming and going is told: this process's own
// peer tells of itself.
func (s *session) logLevel() slog.Level {
	if s.own {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// room is the Socket.IO room of the office's members that the session is with:
// those that say a version and those that do not are told in different words.
func (s *session) room(office string) string { return roomOf(office, s.dialect.Versioned()) }

func roomOf(office string, versioned bool) string {
	if versioned {
		return officePrefix + office + versioned_
	}
	return officePrefix + office + versionless
}

// member is the session for an operator. It is called under Hub.mu.
func (s *session) member(office string) Member {
	return Member{
		Office: office, Name: s.name, Role: s.role, Dialect: s.dialect.String(), Principal: s.grant.Principal, Remote: s.socket.Handshake().RemoteAddr,
		Transport: string(s.socket.Transport()), Since: s.since, InFlight: len(s.calls) + s.serving, Proven: s.key != nil,
	}
}

// answer is the ack of an event that succeeded; nil is an empty one.
type answer []json.RawMessage

// answering makes the Handler of an event for the Server from a function that
// returns the ack. An error becomes the ack that the peer's dialect has for it.
func (h *Hub) answering(f func(s *session, event string, payload json.RawMessage) (answer, error)) socketio.Handler {
	return func(e *socketio.Event) {
		s := sessionOf(e)
		payload := e.Arg(0)
		dialect := s.noteDialect(h, e.Name, payload)
		out, err := f(s, e.Name, payload)
		if err == nil {
			h.ack(e, out...)
			return
		}
		pe := smcp.AsError(err)
		h.log.Debug("an event was refused", "event", e.Name, "sid", s.sid, "err", err)
		if e.Name == smcp.EventJoin || e.Name == smcp.EventLeave {
			h.ack(e, dialect.JoinFailed(pe)...)
			return
		}
		h.ack(e, dialect.Failed(pe))
	}
}

// ack answers an event where the peer waits for an answer. One who is gone
// meanwhile needs none.
func (h *Hub) ack(e *socketio.Event, args ...json.RawMessage) {
	if !e.WantsAck() {
		return
	}
	if err := e.Ack(args...); err != nil {
		h.log.Debug("an ack was not delivered", "event", e.Name, "err", err)
	}
}
