package engineio

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"github.com/weir-mcp/weir/internal/limit/memory"
)

const (
	writeChunk   = 64 << 10  // frames are combined into writes of about this size
	aloneAt      = 16 << 10  // frames of this size are written without a copy
	keptScratch  = 128 << 10 // larger buffers are not reused
	inlineRounds = 4         // how often a sender writes for other senders before a goroutine takes over
)

// wsConn carries a session by a WebSocket. gorilla/websocket does the handshake, and reads in a
// client. wsConn writes frames, many at a time; writing serves as the lock.
type wsConn struct {
	session *Session        // set before frames are queued
	conn    net.Conn        // frames are written to it
	raw     syscall.RawConn // nil if a write cannot be tried without blocking (TLS)
	writing bool            // a goroutine is the writer; guarded by Session.mu
	left    []byte          // the unwritten rest of a tried write; belongs to the writer
	once    sync.Once

	// Of the closing handshake; guarded by Session.mu.
	said  bool // the close frame is written, and nothing follows it
	heard bool // the peer's close frame has come

	// Fields of a client: the reader, and the connection below it; TLS may be between them.
	gorilla *websocket.Conn
	below   *pauseConn

	// Fields of a server; see reading.loop.
	limit    int // bytes of a message
	ahead    [8]byte
	aheadLen uint8 // number of bytes that rest has read
}

var _ carrier = (*wsConn)(nil)

func (w *wsConn) transport() Transport { return WebSocket }

// endLocked writes the queue and then the close frame, or closes the connection at once.
func (w *wsConn) endLocked(how manner) {
	s := w.session
	if how != aborted {
		s.env.forget(s)
		w.setWriteLimit(closeTimeout)
		w.flushLocked() // unlocks
		return
	}
	s.state = ended
	s.mu.Unlock()
	w.abort()
	s.env.forget(s)
}

// masked reports whether frames are written with a mask, as a client must.
func (w *wsConn) masked() bool { return w.gorilla != nil }

// pauseConn reports when its reader is about to read from the network.
type pauseConn struct {
	net.Conn
	pause func() // set before the session's reader starts
}

func (c *pauseConn) Read(p []byte) (int, error) {
	if c.pause != nil {
		c.pause()
	}
	return c.Conn.Read(p)
}

// serverConn takes over a connection after its handshake.
func serverConn(conn net.Conn, limit int) *wsConn {
	return &wsConn{conn: conn, raw: rawConn(conn), limit: limit}
}

// clientConn takes over a connection after its handshake. below is its network connection; TLS may
// be between them.
func clientConn(g *websocket.Conn, below *pauseConn, limit int) *wsConn {
	w := &wsConn{gorilla: g, conn: g.NetConn(), below: below}
	if w.conn == net.Conn(below) {
		w.conn = below.Conn
		w.raw = rawConn(below.Conn)
	}
	g.SetReadLimit(int64(limit))
	// Control frames must not interrupt a half-written frame, so they go through the queue. wsConn
	// closes the connection itself.
	g.SetCloseHandler(func(int, string) error { return nil })
	g.SetPingHandler(func(string) error { return nil })
	return w
}

func (w *wsConn) setWriteLimit(d time.Duration) { _ = w.conn.SetWriteDeadline(time.Now().Add(d)) }

func (w *wsConn) setReadLimit(d time.Duration) { _ = w.conn.SetReadDeadline(time.Now().Add(d)) }

func (w *wsConn) clearReadLimit() { _ = w.conn.SetReadDeadline(time.Time{}) }

// abort closes the connection. Readers and writers return.
func (w *wsConn) abort() { w.once.Do(func() { _ = w.conn.Close() }) }

// closeFrame returns a close frame with a code.
func closeFrame(code uint16) Frame {
	return Frame{wire: []byte{finBit | opClose, 2, byte(code >> 8), byte(code)}, head: 2, opcode: opClose}
}

// writeDirect writes one frame before the session has a writer. It blocks for at most limit.
func (w *wsConn) writeDirect(f Frame, limit time.Duration) error {
	w.setWriteLimit(limit)
	data := f.wire
	if w.masked() {
		data = appendMasked(nil, f)
	}
	_, err := w.conn.Write(data)
	_ = w.conn.SetWriteDeadline(time.Time{})
	return err
}

// --- a client reads ---

var readScratch = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// next waits for a message and reads it into scratch.
func (w *wsConn) next(scratch *[]byte) (packet, error) {
	kind, r, err := w.gorilla.NextReader()
	if err != nil {
		return packet{}, err
	}
	return readPacket(kind, r, scratch, nil)
}

// readPacket reads a message into scratch. It counts large messages in room.
func readPacket(kind int, r io.Reader, scratch *[]byte, room *memory.Hold) (packet, error) {
	buf, err := readAll(r, (*scratch)[:0], room)
	*scratch = buf
	if err != nil {
		return packet{}, err
	}
	if kind == websocket.BinaryMessage {
		return packet{kind: packetMessage, binary: true, data: buf}, nil
	}
	return parsePacket(buf)
}

// readAll reads all of r and appends it to buf. It counts bytes above memory.Free in room, unless
// room is nil.
func readAll(r io.Reader, buf []byte, room *memory.Hold) ([]byte, error) {
	for {
		if len(buf) == cap(buf) {
			size := max(2*cap(buf), 512)
			if cap(buf) > 1<<20 {
				size = cap(buf) / 4 * 5
			}
			if !room.TryGrow(int64(size)) {
				return buf, ErrNoRoom
			}
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// clientLoop reads until the connection or the session ends, and then ends both.
func (w *wsConn) clientLoop() {
	var err error
	defer func() { w.part(err) }()
	w.below.pause = w.session.pause
	// Some proxies send WebSocket pings.
	w.gorilla.SetPingHandler(func(data string) error { return w.pong([]byte(data)) })
	for {
		var kind int
		var r io.Reader
		if kind, r, err = w.gorilla.NextReader(); err == nil {
			err = w.readMessage(kind, r)
		}
		if err != nil {
			w.readFailed(err)
			return
		}
	}
}

// readMessage reads a message that has started and passes it on. It holds the buffer only during
// the call: an idle session has none.
func (w *wsConn) readMessage(kind int, r io.Reader) error {
	s := w.session
	scratch := readScratch.Get().(*[]byte)
	defer func() {
		if cap(*scratch) <= keptScratch {
			readScratch.Put(scratch)
		}
	}()
	room := s.env.memory.Hold()
	defer room.Release()
	p, err := readPacket(kind, r, scratch, &room)
	if err != nil {
		return err
	}
	if room.Len() > 0 && p.kind == packetMessage && s.keeper != nil {
		p.hold, *scratch = room.Move(), nil
	}
	return s.handOver(p)
}

// --- reading, on both sides ---

// readFailed ends the session with the reason that matches a read error.
func (w *wsConn) readFailed(err error) {
	s := w.session
	var closed *websocket.CloseError
	switch {
	case errors.Is(err, ErrClosed):
	case errors.Is(err, errPacket):
		s.end(ReasonParseError, err, graceful)
	case errors.As(err, &closed), errors.Is(err, errClosed), errors.Is(err, io.EOF):
		s.end(ReasonTransportClose, err, byPeer)
	default:
		s.end(ReasonTransportError, err, graceful)
	}
}

// part ends a connection whose reading ended with err. It reads for a bounded time, until the peer
// has seen the close frame and left. Closing with unread data would reset the connection, and the
// peer might lose data. A peer that has sent its close frame sends nothing more, so a server closes
// then, as RFC 6455 §7.1.1 wants: some clients answer the close frame and keep the connection.
func (w *wsConn) part(err error) {
	s := w.session
	s.mu.Lock()
	w.heard = errors.Is(err, errClosed)
	over := w.heard && w.said || errors.Is(err, os.ErrDeadlineExceeded)
	if !w.said && !over {
		w.setReadLimit(closeTimeout)
	}
	s.mu.Unlock()
	if w.below != nil {
		w.below.pause = nil
	}
	if !over {
		_, _ = io.CopyN(io.Discard, w.conn, 1<<20)
	}
	w.abort()
	s.mu.Lock()
	s.state = ended
	s.mu.Unlock()
	s.env.forget(s)
}

// --- writing ---

// writing holds the buffers of a writer.
type writing struct {
	buf []byte
	try attempt
}

var writeScratch = sync.Pool{New: func() any { return &writing{buf: make([]byte, 0, 4096)} }}

func (w *writing) giveBack() {
	if cap(w.buf) <= keptScratch {
		writeScratch.Put(w)
	}
}

// flushLocked writes the queue: in this goroutine while the network accepts it at once, otherwise
// in another one.
func (w *wsConn) flushLocked() {
	s := w.session
	if w.writing {
		s.mu.Unlock()
		return
	}
	w.writing = true
	if w.raw == nil {
		s.mu.Unlock()
		s.env.tasks.Go(func() { w.writeLoop(nil) })
		return
	}
	scratch := writeScratch.Get().(*writing)
	defer scratch.giveBack()
	for round := 0; ; round++ {
		batch := s.queue.take()
		if len(batch) == 0 {
			w.stopWritingLocked() // unlocks
			break
		}
		s.mu.Unlock()
		if round == inlineRounds {
			s.env.tasks.Go(func() { w.writeLoop(batch) })
			break
		}
		rest, left, err := w.try(batch, scratch)
		if err != nil {
			w.writeFailed(err)
			break
		}
		if len(rest) > 0 || len(left) > 0 {
			w.left = append([]byte(nil), rest...)
			done := batch[:len(batch)-len(left)]
			w.written(done, nil)
			s.env.tasks.Go(func() { w.writeLoop(left) })
			break
		}
		w.written(batch, batch)
		s.mu.Lock()
	}
}

// written subtracts items from the counts of the queue. It returns an array that is no longer
// needed, or nil.
func (w *wsConn) written(items, array []item) {
	size := 0
	for i := range items {
		size += items[i].size()
	}
	spare(array)
	w.session.mu.Lock()
	w.session.queue.sent(len(items), size)
	w.session.mu.Unlock()
}

// stopWritingLocked releases the writer's role. If the session has ended, it writes the close frame
// first. It unlocks s.mu.
func (w *wsConn) stopWritingLocked() {
	s := w.session
	if s.state == open {
		w.writing = false
		s.mu.Unlock()
		return
	}
	cause, wait := s.err, closeTimeout
	if s.reason == ReasonShutdown {
		wait = shutdownTimeout
	}
	s.mu.Unlock() // writing stays true: this is the last write
	s.env.tasks.Go(func() {
		if err := w.sayGoodbye(cause); err != nil {
			w.abort()
			return
		}
		s.mu.Lock()
		w.said = true
		w.setReadLimit(wait)
		heard := w.heard
		s.mu.Unlock()
		// The server must not wait for the client to close: clients wait for the server (RFC 6455
		// §7.1.1).
		if heard {
			w.abort()
		} else if half, ok := w.conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
}

// sayGoodbye writes the only close frame of a connection.
func (w *wsConn) sayGoodbye(cause error) error {
	var broken *frameError
	switch {
	case errors.As(cause, &broken):
		return w.writeDirect(broken.goodbye(), closeTimeout)
	case w.gorilla != nil && answeredByGorilla(cause):
		return nil
	}
	return w.writeDirect(closeFrame(closeNormal), closeTimeout)
}

// answeredByGorilla reports whether gorilla/websocket has already written a close frame for a read
// error: a protocol violation or a message that is too long. These errors have no type, only a
// distinct prefix.
func answeredByGorilla(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "websocket: ") && !errors.As(err, new(*websocket.CloseError))
}

func (w *wsConn) writeFailed(err error) {
	s := w.session
	s.end(ReasonTransportError, err, aborted)
	w.abort()
}

// writeLoop writes until the queue is empty. It owns w.writing.
func (w *wsConn) writeLoop(batch []item) {
	s := w.session
	scratch := writeScratch.Get().(*writing)
	defer scratch.giveBack()
	if rest := w.left; len(rest) > 0 {
		w.left = nil
		if _, err := w.conn.Write(rest); err != nil {
			w.writeFailed(err)
			return
		}
	}
	for {
		for whole := batch; len(batch) > 0; {
			data, n := w.chunk(batch, scratch)
			if _, err := w.conn.Write(data); err != nil {
				w.writeFailed(err)
				return
			}
			if len(batch) == n {
				w.written(batch, whole)
				break
			}
			w.written(batch[:n], nil)
			batch = batch[n:]
		}
		s.mu.Lock()
		batch = s.queue.take()
		if len(batch) == 0 {
			w.stopWritingLocked() // unlocks
			return
		}
		s.mu.Unlock()
	}
}

// chunk combines items from the front of a batch for one write.
func (w *wsConn) chunk(items []item, scratch *writing) (data []byte, n int) {
	masked := w.masked()
	if first := items[0]; !masked && (len(items) == 1 || first.size() >= aloneAt) {
		return first.wire, 1
	}
	buf := scratch.buf[:0]
	for ; n < len(items); n++ {
		f := items[n].Frame
		if n > 0 && (len(buf)+f.size() > writeChunk || !masked && f.size() >= aloneAt) {
			break
		}
		if masked {
			buf = appendMasked(buf, f)
		} else {
			buf = append(buf, f.wire...)
		}
	}
	scratch.buf = buf
	return buf, n
}

// try writes as much of a batch as the network accepts without blocking. rest is the unwritten part
// of the last chunk, left are the items that were not reached.
func (w *wsConn) try(batch []item, scratch *writing) (rest []byte, left []item, err error) {
	for len(batch) > 0 {
		data, n := w.chunk(batch, scratch)
		batch = batch[n:]
		sent, err := scratch.try.tryWrite(w.raw, data)
		if err != nil {
			return nil, nil, err
		}
		if sent < len(data) {
			return data[sent:], batch, nil
		}
	}
	return nil, nil, nil
}

// --- accepting ---

// noBuffers is a pool from which gorilla would take write buffers. It stays empty, because wsConn
// writes the frames.
type noBuffers struct{}

func (noBuffers) Get() any { return nil }
func (noBuffers) Put(any)  {}

// hijacker gives gorilla the connection even if a handler wraps the http.ResponseWriter.
type hijacker struct{ http.ResponseWriter }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}
