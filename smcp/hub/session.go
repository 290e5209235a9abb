package hub

import (
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
)

// session is one connection in the namespace.
type session struct {
	socket  *socketio.Socket
	sid     string // of the connection
	version a2c.Version
	said    string // the peer's version text; "" for none
	own     bool   // in-process, see Hub.Attach

	// Hub.mu guards the fields below.
	grant   Grant
	access  *access // the access that granted grant
	dialect a2c.Dialect
	role    smcp.Role         // never changes once set
	name    string            // never changes once set
	office  *office           // nil: in no office
	at      *roster.Member    // of office; nil: in no office
	alias   string            // sid as other members know it
	next    string            // alias of the last join
	coming  *roster.Member    // on the way to an office; nil: none
	key     ed25519.PublicKey // the proven key; nil: none
	nonce   string            // to be signed once
	proof   *time.Timer       // ends an unproven connection; nil: no proof needed
	renewal *time.Timer       // checks the grant again; nil: the grant has no Until
	since   time.Time
	calls   map[*call]struct{} // in flight, of an Agent
	serving int                // number in flight, to a Computer
	wants   string             // the office of the last join
	leaving bool               // its membership ends: it is not put out
	moving  bool               // its connection ends now, without a call in flight: none starts
	ended   bool
	threads map[string]*thread // of channels with members at other nodes, by their sid
}

func sessionOf(e *socketio.Event) *session {
	s, _ := e.Socket().Value().(*session)
	return s
}

// noteDialect updates the peer's dialect after an event and returns it.
func (s *session) noteDialect(h *Hub, event string, payload json.RawMessage) a2c.Dialect {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.dialect = s.dialect.Hear(event, payload)
	return s.dialect
}

// noteCallDialect is like noteDialect for a client:* event whose fields have been read.
func (s *session) noteCallDialect(h *Hub, event string, agent, robot []byte) a2c.Dialect {
	h.mu.Lock()
	defer h.mu.Unlock()
	if event == smcp.EventGetMCPConfig || robot != nil && agent == nil {
		s.dialect = s.dialect.Hear(smcp.EventGetMCPConfig, nil)
	}
	return s.dialect
}

// logLevel returns the level at which the session's coming and going is logged. In-process peers log
// it themselves.
func (s *session) logLevel() slog.Level {
	if s.own {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// room returns the Socket.IO room for the session's members of an office. Members with and without a
// version are in different rooms, because they get different events.
func (s *session) room(office string) string { return roomOf(office, s.dialect.Versioned()) }

func roomOf(office string, versioned bool) string {
	if versioned {
		return officePrefix + office + versioned_
	}
	return officePrefix + office + versionless
}

// member returns the session's description for an operator. The caller holds Hub.mu.
func (s *session) member(office string) Member {
	return Member{
		Office: office, Name: s.name, Role: s.role, Dialect: s.dialect.String(), Principal: s.grant.Principal, Remote: s.socket.Handshake().RemoteAddr,
		Transport: string(s.socket.Transport()), Since: s.since, Node: s.at.Node, InFlight: len(s.calls) + s.serving, Proven: s.key != nil,
	}
}

// answer is the ack of a successful event; nil is an empty ack.
type answer []json.RawMessage

// answering returns the Handler of a server event from a function that returns the ack. An error
// becomes an ack in the peer's dialect.
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

// ack answers an event if the peer waits for an ack. A peer that has left needs none.
func (h *Hub) ack(e *socketio.Event, args ...json.RawMessage) {
	if !e.WantsAck() {
		return
	}
	if err := e.Ack(args...); err != nil {
		h.log.Debug("an ack was not delivered", "event", e.Name, "err", err)
	}
}
