package socketio

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// host is the Server or the Client that owns a connection.
type host interface {
	// connect handles a CONNECT packet. data is only valid during the call.
	connect(c *conn, nsp []byte, data []byte)
	// refused handles a CONNECT_ERROR packet.
	refused(c *conn, nsp []byte, data []byte)
	// closed is called when the connection and its sockets have ended.
	closed(c *conn, reason Reason, err error)
}

// conn is one Engine.IO session with the sockets that share it. It implements Receiver for the
// session.
type conn struct {
	host   host
	limits *limits
	link   link
	dirty  atomic.Bool // a broadcast is queued and a fan will flush it

	// The fields up to mu belong to the reader.
	pending *assembly // a binary packet whose attachments are incomplete
	stirred []*Socket // sockets with new work since the last pause

	mu      sync.Mutex // guards below
	sockets []*Socket  // few: a slice is smaller and faster than a map
	left    []string   // namespaces that were left; packets for them may still arrive
	timer   *time.Timer
	over    bool
	err     error // the reason of the end
}

// limits bounds the memory and the goroutines of one connection, and waits for its goroutines.
type limits struct {
	attachments     int
	attachmentBytes int
	pending         int
	pendingBytes    int
	concurrent      int
	acks            int
	immediate       []string // see Config.Immediate
	logger          *slog.Logger
	workers         *workers
}

type assembly struct {
	packet packet
	parts  [][]byte
	bytes  int
}

// Message handles one Engine.IO message.
func (c *conn) Message(data []byte, binary bool) {
	if err := c.take(data, binary); err != nil {
		c.limits.logger.Debug("socketio: closing a connection", "error", err)
		c.link.CloseWith(engineio.ReasonParseError)
	}
}

func (c *conn) take(data []byte, binary bool) error {
	if binary {
		return c.takeAttachment(data)
	}
	if c.pending != nil {
		return fmt.Errorf("%w: text where an attachment should be", errPacket)
	}
	p, err := parsePacket(data)
	if err != nil {
		return err
	}
	switch p.kind {
	case packetConnect:
		c.host.connect(c, p.nsp, p.data)
		return nil
	case packetConnectError:
		c.host.refused(c, p.nsp, p.data)
		return nil
	case packetDisconnect:
		if s := c.socket(p.nsp); s != nil {
			s.peerLeft()
		}
		return nil
	}
	if p.attachments > c.limits.attachments {
		return fmt.Errorf("%w: %d attachments", errPacket, p.attachments)
	}
	if p.attachments > 0 {
		if c.socket(p.nsp) == nil && !c.hasLeft(p.nsp) {
			return unjoined(p.nsp) // before its attachments are stored
		}
		// The header is kept until its attachments arrive, and data belongs to the session.
		p, err = parsePacket(bytes.Clone(data))
		c.pending = &assembly{packet: p}
		return err
	}
	return c.dispatch(p, nil, len(data))
}

func (c *conn) takeAttachment(data []byte) error {
	a := c.pending
	if a == nil {
		return fmt.Errorf("%w: an attachment of nothing", errPacket)
	}
	limit := c.limits.attachmentBytes
	if c.link.OnProbation() {
		limit = min(limit, maxProbationBytes)
	}
	if a.bytes += len(data); a.bytes > limit {
		return fmt.Errorf("%w: attachments of more than %d bytes", errPacket, limit)
	}
	a.parts = append(a.parts, bytes.Clone(data))
	if len(a.parts) < a.packet.attachments {
		return nil
	}
	c.pending = nil
	return c.dispatch(a.packet, a.parts, a.bytes+len(a.packet.data))
}

// maxProbationBytes bounds the attachments of one packet of a connection on probation.
const maxProbationBytes = 16 << 10

func unjoined(nsp []byte) error {
	return fmt.Errorf("%w: for the namespace %.100q, which the peer has not joined", errPacket, nsp)
}

// dispatch passes an EVENT or an ACK to its socket.
func (c *conn) dispatch(p packet, attachments [][]byte, size int) error {
	s := c.socket(p.nsp)
	if s == nil {
		if c.hasLeft(p.nsp) {
			return nil
		}
		return unjoined(p.nsp)
	}
	// One copy holds all parts of the message.
	kept := make([]byte, 0, len(p.id)+len(p.data))
	kept = append(append(kept, p.id...), p.data...)
	id, data := kept[:len(p.id):len(p.id)], kept[len(p.id):]
	if p.kind == packetAck {
		args, err := splitArray(data, nil)
		if err == nil {
			s.acks.settle(id, Payload{Args: args, Attachments: attachments})
		}
		return err
	}
	if p.id == nil {
		id = nil
	}
	event := &Event{socket: s, id: id}
	raw, args, err := splitEvent(data, event.room[:0])
	if err != nil {
		return err
	}
	name, e, err := s.handlers.find(raw)
	if err == nil {
		event.Name, event.Payload = name, Payload{Args: args, Attachments: attachments}
		s.takeEvent(event, e, size)
	}
	return err
}

// deliver passes a message of an in-process peer to its socket.
func (c *conn) deliver(m message) error {
	nsp := []byte(m.nsp)
	switch m.kind {
	case packetConnect:
		c.host.connect(c, nsp, m.data)
		return nil
	case packetConnectError:
		c.host.refused(c, nsp, m.data)
		return nil
	}
	s := c.socket(nsp)
	switch {
	case s == nil && (m.kind == packetDisconnect || c.hasLeft(nsp)):
	case s == nil:
		return unjoined(nsp)
	case m.kind == packetDisconnect:
		s.peerLeft()
	case len(m.Attachments) > c.limits.attachments:
		return fmt.Errorf("%w: %d attachments", errPacket, len(m.Attachments))
	case m.size()-m.textSize() > c.limits.attachmentBytes:
		return fmt.Errorf("%w: attachments of more than %d bytes", errPacket, c.limits.attachmentBytes)
	case m.kind == packetAck:
		s.acks.settle(m.id, m.Payload)
	default:
		s.takeEvent(&Event{Name: m.event, Payload: m.Payload, socket: s, id: m.id}, s.handlers.named(m.event), m.size())
	}
	return nil
}

// deliverNow is deliver in the sender's goroutine. It does nothing and returns false if the message
// could block, or run code that expects another goroutine.
func (c *conn) deliverNow(m *message) bool {
	if len(m.Attachments) > 0 || m.kind != packetAck && m.kind != packetEvent {
		return false
	}
	s := c.socket([]byte(m.nsp))
	switch {
	case s == nil:
		return false
	case m.kind == packetAck:
		return s.acks.settleWaiting(m.id, m.Payload)
	}
	e := s.handlers.named(m.event)
	if e == nil || !e.immediate || !s.jobs.claim() {
		return false
	}
	e.handle(&Event{Name: m.event, Payload: m.Payload, socket: s, id: m.id})
	s.jobs.release()
	return true
}

// Pause starts the handlers of the received events.
func (c *conn) Pause() {
	for i, s := range c.stirred {
		s.jobs.start()
		c.stirred[i] = nil
	}
	if cap(c.stirred) > 4 {
		c.stirred = nil
	}
	c.stirred = c.stirred[:0]
}

// Closed ends all sockets of the connection.
func (c *conn) Closed(reason Reason, err error) {
	c.mu.Lock()
	c.over, c.err = true, err
	sockets := c.sockets
	c.sockets = nil
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	for _, s := range sockets {
		s.disconnected(reason)
	}
	c.host.closed(c, reason, err)
}

func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// socket returns the socket of a namespace, or nil.
func (c *conn) socket(nsp []byte) *Socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sockets {
		if s.nsp == string(nsp) {
			return s
		}
	}
	return nil
}

// add adds a socket. It reports false if the connection has ended or has a socket for the
// namespace.
func (c *conn) add(s *Socket) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	for _, other := range c.sockets {
		if other.nsp == s.nsp {
			return false
		}
	}
	c.sockets = append(c.sockets, s)
	return true
}

// remove removes a socket and remembers its namespace.
func (c *conn) remove(s *Socket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.sockets {
		if other == s {
			c.sockets = append(c.sockets[:i:i], c.sockets[i+1:]...)
			break
		}
	}
	for _, nsp := range c.left {
		if nsp == s.nsp {
			return
		}
	}
	c.left = append(c.left, s.nsp) // bounded by the number of namespaces
}

func (c *conn) hasLeft(nsp []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.left {
		if name == string(nsp) {
			return true
		}
	}
	return false
}

// joined stops the timer that runs until the first namespace is joined.
func (c *conn) joined() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
