package socketio

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
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
	stirred []*Socket // sockets with new work since the last pause

	pending atomic.Pointer[assembly] // a binary packet whose attachments are incomplete

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
	memory          *memory.Account // counts large messages; nil: not counted
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
	own    releases // of packet and parts
}

// Message handles one Engine.IO message.
func (c *conn) Message(data []byte, binary bool) { c.handle(data, binary, nil) }

// Keep handles one large Engine.IO message, which is not copied.
func (c *conn) Keep(data []byte, binary bool, release func()) {
	c.handle(data, binary, releases{release})
}

// handle handles a message. own is not empty if data stays valid.
func (c *conn) handle(data []byte, binary bool, own releases) {
	if err := c.take(data, binary, own); err != nil {
		own.run()
		c.limits.logger.Debug("socketio: closing a connection", "error", err)
		c.link.CloseWith(engineio.ReasonParseError)
	}
}

// take handles a message. If it returns an error, it has not called own.
func (c *conn) take(data []byte, binary bool, own releases) error {
	if binary {
		return c.takeAttachment(data, own)
	}
	if c.pending.Load() != nil {
		return fmt.Errorf("%w: text where an attachment should be", errPacket)
	}
	p, err := parsePacket(data)
	if err != nil {
		return err
	}
	switch p.kind {
	case packetConnect:
		c.host.connect(c, p.nsp, p.data)
		own.run()
		return nil
	case packetConnectError:
		c.host.refused(c, p.nsp, p.data)
		own.run()
		return nil
	case packetDisconnect:
		if s := c.socket(p.nsp); s != nil {
			s.peerLeft()
		}
		own.run()
		return nil
	}
	if p.attachments > c.limits.attachments {
		return fmt.Errorf("%w: %d attachments", errPacket, p.attachments)
	}
	if p.attachments > 0 {
		if c.socket(p.nsp) == nil && !c.hasLeft(p.nsp) {
			return unjoined(p.nsp) // before its attachments are stored
		}
		// The header is kept until its attachments arrive.
		if data, own, err = c.keep(data, own); err != nil {
			return err
		}
		p, err = parsePacket(data)
		c.wait(&assembly{packet: p, own: own})
		return err
	}
	return c.dispatch(p, nil, len(data), own)
}

// keep returns bytes that stay valid, and what returns the counted ones: data itself if own is not empty, else a copy.
func (c *conn) keep(data []byte, own releases) ([]byte, releases, error) {
	if len(own) > 0 {
		return data, own, nil
	}
	if len(data) > memory.Free {
		hold := c.limits.memory.Hold()
		if !hold.TryGrow(int64(len(data))) {
			return nil, nil, engineio.ErrNoRoom
		}
		own = releases{hold.Release}
	}
	return bytes.Clone(data), own, nil
}

func (c *conn) takeAttachment(data []byte, own releases) error {
	a := c.pending.Swap(nil)
	if a == nil {
		return fmt.Errorf("%w: an attachment of nothing", errPacket)
	}
	part, kept, err := c.attachment(a, data, own)
	if err != nil {
		a.own.run()
		return err
	}
	a.parts, a.own = append(a.parts, part), append(a.own, kept...)
	if len(a.parts) < a.packet.attachments {
		c.wait(a)
		return nil
	}
	if len(a.own) == 0 {
		a.own = releases{func() {}} // the header is a copy as well
	}
	if err := c.dispatch(a.packet, a.parts, a.bytes+len(a.packet.data), a.own); err != nil {
		a.own[:len(a.own)-len(own)].run() // the caller returns its own
		return err
	}
	return nil
}

// wait keeps a packet until its next attachment, or the end of the connection.
func (c *conn) wait(a *assembly) {
	c.pending.Store(a)
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over {
		c.dropPending()
	}
}

func (c *conn) dropPending() {
	if a := c.pending.Swap(nil); a != nil {
		a.own.run()
	}
}

// attachment returns the bytes of an attachment as keep does.
func (c *conn) attachment(a *assembly, data []byte, own releases) ([]byte, releases, error) {
	limit := c.limits.attachmentBytes
	if c.link.OnProbation() {
		limit = min(limit, maxProbationBytes)
	}
	if a.bytes += len(data); a.bytes > limit {
		return nil, nil, fmt.Errorf("%w: attachments of more than %d bytes", errPacket, limit)
	}
	return c.keep(data, own)
}

// maxProbationBytes bounds the attachments of one packet of a connection on probation.
const maxProbationBytes = 16 << 10

func unjoined(nsp []byte) error {
	return fmt.Errorf("%w: for the namespace %.100q, which the peer has not joined", errPacket, nsp)
}

// dispatch passes an EVENT or an ACK to its socket. own is not empty if the bytes of p stay valid; then it is called when
// the message has been handled, unless dispatch returns an error.
func (c *conn) dispatch(p packet, attachments [][]byte, size int, own releases) error {
	s := c.socket(p.nsp)
	if s == nil {
		if c.hasLeft(p.nsp) {
			own.run()
			return nil
		}
		return unjoined(p.nsp)
	}
	id, data, made := p.id, p.data, len(own) == 0
	if made {
		// One copy holds all parts of the message.
		hold := c.limits.memory.Hold()
		if !hold.TryGrow(int64(len(p.id) + len(p.data))) {
			return engineio.ErrNoRoom
		}
		if hold.Len() > 0 {
			own = releases{hold.Release}
		}
		kept := make([]byte, 0, len(p.id)+len(p.data))
		kept = append(append(kept, p.id...), p.data...)
		id, data = kept[:len(p.id):len(p.id)], kept[len(p.id):]
		if p.id == nil {
			id = nil
		}
	}
	if p.kind == packetAck {
		args, err := splitArray(data, nil)
		if err == nil {
			s.acks.settle(id, Payload{Args: args, Attachments: attachments}, own)
		} else if made {
			own.run()
		}
		return err
	}
	event := &Event{socket: s, id: id, own: own}
	raw, args, err := splitEvent(data, event.room[:0])
	if err == nil {
		var e *entry
		if event.Name, e, err = s.handlers.find(raw); err == nil {
			event.Payload = Payload{Args: args, Attachments: attachments}
			s.takeEvent(event, e, size)
			return nil
		}
	}
	if made {
		own.run()
	}
	return err
}

// deliver passes a message of an in-process peer to its socket.
func (c *conn) deliver(m *message) error {
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
		s.acks.settle(m.id, m.Payload, m.take())
	default:
		s.takeEvent(&Event{Name: m.event, Payload: m.Payload, socket: s, id: m.id, own: m.take()}, s.handlers.named(m.event), m.size())
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
		if !s.acks.settleWaiting(m.id, m.Payload, m.own) {
			return false
		}
		m.take()
		return true
	}
	e := s.handlers.named(m.event)
	if e == nil || !e.immediate || !s.jobs.claim() {
		return false
	}
	event := &Event{Name: m.event, Payload: m.Payload, socket: s, id: m.id, own: m.take()}
	e.handle(event)
	event.done()
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
	c.dropPending()
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
