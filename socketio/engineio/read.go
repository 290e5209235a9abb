package engineio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// A server reads in one of two ways, so that a silent session costs little:
//
//	       bytes arrive                           silence for lingerTime
//	rest ────────────────▶ loop ─▶ messages ─────────────────────────▶ rest
//
// loop has a buffer, and a stack that has grown with the receivers' work. rest has the smallest
// possible stack and room for a few bytes: it waits for them and passes them to a new loop.

// lingerTime is how long a loop waits for more before it releases its buffer and its stack. A peer
// that sends more often finds them warm.
const lingerTime = 50 * time.Millisecond

// reading is the state of a loop. It belongs to one goroutine; a session at rest has none.
type reading struct {
	session  *Session
	conn     *wsConn
	message  []byte       // the part of a message that has arrived
	hold     *memory.Hold // of message; nil: the message is small
	busy     bool         // bytes have arrived since the deadline was set
	lingers  bool         // the deadline is lingerTime's
	from, to int          // the unused part of buf
	buf      [4000]byte   // so that the whole fits a size class of the allocator
}

var readings = sync.Pool{New: func() any { return new(reading) }}

// takeReading starts to read with the bytes that rest has read.
func takeReading(s *Session, w *wsConn) *reading {
	r := readings.Get().(*reading)
	r.session, r.conn = s, w
	r.from, r.to = 0, copy(r.buf[:], w.ahead[:w.aheadLen])
	w.aheadLen = 0
	return r
}

func (r *reading) giveBack() {
	if cap(r.message) > keptScratch {
		r.message = nil
	}
	if r.hold != nil {
		r.hold.Release()
		r.hold = nil
	}
	r.session, r.conn, r.busy, r.lingers = nil, nil, false, false
	readings.Put(r)
}

// errRest is returned by a read after a silence between messages.
var errRest = errors.New("engineio: the peer is silent")

// frameError is a violation of RFC 6455 by the peer, with the code of our close frame.
type frameError struct {
	code uint16
	text string
}

func (e *frameError) Error() string { return "websocket: " + e.text }

// goodbye returns the close frame with the code and the reason.
func (e *frameError) goodbye() Frame {
	text := e.text[:min(len(e.text), 123)] // RFC 6455 §5.5: 125 with the code
	wire, head := newWire(opClose, 2+len(text))
	wire = binary.BigEndian.AppendUint16(wire, e.code)
	return Frame{wire: append(wire, text...), head: head, opcode: opClose}
}

// Codes of close frames (RFC 6455 §7.4.1).
const (
	closeNormal   = 1000
	closeProtocol = 1002
	closeTooBig   = 1009
	closeTryAgain = 1013
)

func frameErrorf(format string, args ...any) error {
	return &frameError{closeProtocol, fmt.Sprintf(format, args...)}
}

// errClosed is returned after the peer's close frame.
var errClosed = errors.New("websocket: the peer sent a close frame")

// next reads a packet. It answers or skips the control frames before it. The packet is valid until
// the next call.
func (r *reading) next() (packet, error) {
	opcode, err := r.nextMessage()
	if err != nil {
		return packet{}, err
	}
	if opcode == opBinary {
		return packet{kind: packetMessage, binary: true, data: r.message}, nil
	}
	return parsePacket(r.message)
}

// nextMessage reads a message, which may come in fragments, into r.message.
func (r *reading) nextMessage() (opcode byte, err error) {
	r.message = r.message[:0]
	for {
		h, err := r.header(opcode != 0)
		if err != nil {
			return 0, err
		}
		switch {
		case h.opcode >= opClose:
			if err := r.control(h); err != nil {
				return 0, err
			}
			continue
		case h.opcode == opContinuation && opcode == 0:
			return 0, frameErrorf("a continuation of nothing")
		case h.opcode != opContinuation && opcode != 0:
			return 0, frameErrorf("a new message before the end of the last")
		}
		// A session may be admitted in the middle of its message.
		if limit := r.session.maxMessage(r.conn.limit); h.size > uint64(max(limit-len(r.message), 0)) {
			return 0, &frameError{closeTooBig, r.session.tooLong(limit)}
		}
		if opcode == 0 {
			opcode = h.opcode
		}
		if err := r.payload(h); err != nil {
			return 0, err
		}
		if h.final {
			return opcode, nil
		}
	}
}

// frameHeader is the header of a client's frame (RFC 6455 §5.2).
type frameHeader struct {
	opcode byte
	final  bool
	size   uint64
	key    [4]byte
}

// maxEmptyReads bounds how often in a row a connection may return neither bytes nor an error.
const maxEmptyReads = 100

// header reads a frame's header. Before the first frame of a message the peer may be silent for a
// long time.
func (r *reading) header(within bool) (h frameHeader, err error) {
	if err := r.have(2, within); err != nil {
		return h, err
	}
	first, second := r.buf[r.from], r.buf[r.from+1]
	h.opcode, h.final = first&0xf, first&finBit != 0
	switch {
	case first&0x70 != 0:
		return h, frameErrorf("reserved bits are set")
	case h.opcode > opBinary && h.opcode < opClose || h.opcode > opPong:
		return h, frameErrorf("unknown opcode %d", h.opcode)
	case second&maskBit == 0:
		return h, frameErrorf("a client's frame without a mask")
	case h.opcode >= opClose && (!h.final || second&^maskBit > 125):
		return h, frameErrorf("a control frame that is long or in fragments")
	}
	size := 0 // number of length bytes after the second byte
	switch second &^ maskBit {
	case 126:
		size = 2
	case 127:
		size = 8
	}
	n := 2 + size + len(h.key)
	if err := r.have(n, true); err != nil {
		return h, err
	}
	rest := r.buf[r.from+2 : r.from+n]
	switch size {
	case 0:
		h.size = uint64(second &^ maskBit)
	case 2:
		h.size = uint64(binary.BigEndian.Uint16(rest))
	case 8:
		if h.size = binary.BigEndian.Uint64(rest); h.size > 1<<63-1 {
			return h, frameErrorf("a length of more than 63 bits")
		}
	}
	copy(h.key[:], rest[size:])
	r.from += n
	return h, nil
}

// payload appends a frame's payload to the message. Memory grows with the bytes that arrive, not
// with the length in the header.
func (r *reading) payload(h frameHeader) error {
	start, left := len(r.message), int(h.size)
	for left > 0 {
		if r.from < r.to {
			n := min(left, r.to-r.from)
			if err := r.room(n, len(r.message)); err != nil {
				return err
			}
			r.message = append(r.message, r.buf[r.from:r.from+n]...)
			r.from += n
			left -= n
			continue
		}
		if left < len(r.buf) {
			if err := r.fill(true); err != nil {
				return err
			}
			continue
		}
		if len(r.message) == cap(r.message) {
			if err := r.room(min(left, max(len(r.message), len(r.buf))), 0); err != nil {
				return err
			}
		}
		room := r.message[len(r.message):cap(r.message)]
		n, err := r.read(room[:min(left, len(room))], true)
		r.message = r.message[:len(r.message)+n]
		left -= n
		if err != nil {
			return err
		}
	}
	maskBytes(h.key, r.message[start:])
	return nil
}

// room makes room for n more bytes of the message, or for ahead if that is more, and counts large
// messages. It waits for room as memory.Hold.Grow does: the arrived part stays in memory meanwhile.
func (r *reading) room(n, ahead int) error {
	if len(r.message)+n <= cap(r.message) {
		return nil
	}
	size := len(r.message) + max(n, ahead)
	if size > memory.Free {
		if r.hold == nil {
			hold := r.session.env.memory.Hold()
			r.hold = &hold
		}
		if !r.hold.TryGrow(int64(size)) && !r.session.await(r.hold, int64(size)) {
			return &frameError{closeTryAgain, "there is no room for the message now"}
		}
	}
	r.message = append(make([]byte, 0, size), r.message...)
	return nil
}

// await waits until a Hold has n bytes, and reports whether it has. The session expects no pongs meanwhile.
func (s *Session) await(hold *memory.Hold, n int64) bool {
	s.delivering.Store(true)
	defer s.delivering.Store(false)
	return hold.Grow(sessionContext{s}, n) == nil
}

// sessionContext is a context that ends with its session.
type sessionContext struct{ s *Session }

func (c sessionContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c sessionContext) Done() <-chan struct{}       { return c.s.Done() }
func (c sessionContext) Value(any) any               { return nil }
func (c sessionContext) Err() error {
	if c.s.isOpen() {
		return nil
	}
	return context.Canceled
}

// control handles a control frame of WebSocket.
func (r *reading) control(h frameHeader) error {
	n := int(h.size)
	if err := r.have(n, true); err != nil {
		return err
	}
	data := r.buf[r.from : r.from+n]
	r.from += n
	maskBytes(h.key, data)
	switch h.opcode {
	case opClose:
		if n == 1 {
			return frameErrorf("a close frame with half a code")
		}
		if n > 1 && !(validCode(binary.BigEndian.Uint16(data)) && utf8.Valid(data[2:])) {
			return frameErrorf("a close frame with a code or a reason that is none")
		}
		return errClosed
	case opPing: // some proxies and clients send pings
		if r.lingers {
			return r.conn.pong(data)
		}
	}
	return nil
}

// validCode reports whether a peer may send a code in a close frame (RFC 6455 §7.4).
func validCode(code uint16) bool {
	return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006 || code >= 3000 && code <= 4999
}

// pong answers a WebSocket ping through the queue: a control frame must not interrupt a
// half-written frame.
func (w *wsConn) pong(data []byte) error {
	wire, head := newWire(opPong, len(data))
	return w.session.Send(Frame{wire: append(wire, data...), head: head, opcode: opPong})
}

// have waits until n bytes are in the buffer, at most the size of a control frame. within means
// that a message or a frame has started.
func (r *reading) have(n int, within bool) error {
	for r.to-r.from < n {
		if err := r.fill(within || r.to > r.from); err != nil {
			return err
		}
	}
	return nil
}

// fill reads bytes into the buffer.
func (r *reading) fill(within bool) error {
	if r.from > 0 {
		r.to = copy(r.buf[:], r.buf[r.from:r.to])
		r.from = 0
	}
	n, err := r.read(r.buf[r.to:], within)
	r.to += n
	return err
}

// read reads from the network. It returns at least one byte, or an error.
func (r *reading) read(into []byte, within bool) (int, error) {
	for empty := 0; ; {
		if r.lingers {
			r.session.pause()
		}
		n, err := r.conn.conn.Read(into)
		if n > 0 {
			r.busy = true
			r.session.hear()
			return n, nil
		}
		switch {
		case err == nil:
			if empty++; empty == maxEmptyReads {
				return 0, io.ErrNoProgress
			}
			continue
		case !r.lingers || !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		case !r.session.isOpen():
			return 0, err
		case !within && !r.busy:
			return 0, errRest
		}
		r.linger()
	}
}

// linger makes the following reads end after lingerTime.
func (r *reading) linger() {
	r.busy, r.lingers = false, true
	r.conn.readUntil(time.Now().Add(lingerTime))
}

// readUntil sets the read deadline, unless the session has ended and set another one.
func (w *wsConn) readUntil(deadline time.Time) {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == open {
		_ = w.conn.SetReadDeadline(deadline) // the next read reports an error
	}
}

// loop reads until the connection or the session ends, and then ends both; or until the peer has
// been silent for lingerTime. It releases the reading.
func (r *reading) loop() {
	w := r.conn
	defer r.giveBack()
	r.linger()
	for {
		p, err := r.next()
		if err == nil {
			if r.hold != nil && p.kind == packetMessage && r.session.keeper != nil {
				p.hold, r.hold, r.message = r.hold, nil, nil
			}
			err = r.session.handOver(p)
		}
		switch {
		case err == nil:
		case errors.Is(err, errRest):
			w.goToRest()
			return
		default:
			w.readFailed(err)
			w.part(err)
			return
		}
	}
}

// goToRest waits for the peer in a new goroutine.
func (w *wsConn) goToRest() {
	w.readUntil(time.Time{})
	w.session.env.tasks.running.Add(1)
	go w.rest()
}

// rest waits for the next bytes of the peer. It must not call anything that makes the initial stack
// of a goroutine grow. That stack is most of the cost of an idle session.
func (w *wsConn) rest() {
	n, err := w.conn.Read(w.ahead[:])
	w.aheadLen = uint8(n)
	w.session.env.tasks.running.Add(1)
	go w.wake(err)
	w.session.env.tasks.finish()
}

// wake continues with the bytes that rest has read.
func (w *wsConn) wake(err error) {
	s := w.session
	defer s.env.tasks.finish()
	if w.aheadLen == 0 && err != nil {
		w.readFailed(err)
		w.part(err)
		return
	}
	s.hear()
	takeReading(s, w).loop()
}
