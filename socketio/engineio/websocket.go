package engineio

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"github.com/weir-mcp/weir/internal/memory"
)

const (
	writeChunk   = 64 << 10  // frames are put together into writes of about this size
	aloneAt      = 16 << 10  // frames of this size are written without a copy
	keptScratch  = 128 << 10 // buffers that grew larger are not kept
	inlineRounds = 4         // how often a sender writes for others before a goroutine takes over
)

// A wsConn is a WebSocket connection. gorilla/websocket shakes hands, and reads on a client's side; frames are written here,
// many at a time, with the session's writing flag as the lock.
type wsConn struct {
	conn net.Conn        // what frames are written to
	raw  syscall.RawConn // nil where a write cannot be tried without blocking (TLS)
	left []byte          // what a tried write left over; belongs to the writer
	once sync.Once

	// Of a client: what reads, and what its bytes come from; TLS may lie between.
	gorilla *websocket.Conn
	below   *pauseConn

	// Of a server; see readLoop.
	limit    int // bytes of a message
	ahead    [8]byte
	aheadLen uint8 // of what rest has read
}

// masked reports whether frames are written with a mask, as a client must.
func (w *wsConn) masked() bool { return w.gorilla != nil }

// A pauseConn tells when its reader is about to ask the network for more.
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

// clientConn takes over a connection after its handshake. below is what its bytes come from; TLS may lie between.
func clientConn(g *websocket.Conn, below *pauseConn, limit int) *wsConn {
	w := &wsConn{gorilla: g, conn: g.NetConn(), below: below}
	if w.conn == net.Conn(below) {
		w.conn = below.Conn
		w.raw = rawConn(below.Conn)
	}
	g.SetReadLimit(int64(limit))
	// Control frames must not cut into a frame that is half written, so they go through the queue, and closing is ours.
	g.SetCloseHandler(func(int, string) error { return nil })
	g.SetPingHandler(func(string) error { return nil })
	return w
}

func (w *wsConn) setWriteLimit(d time.Duration) { _ = w.conn.SetWriteDeadline(time.Now().Add(d)) }

func (w *wsConn) setReadLimit(d time.Duration) { _ = w.conn.SetReadDeadline(time.Now().Add(d)) }

func (w *wsConn) clearReadLimit() { _ = w.conn.SetReadDeadline(time.Time{}) }

// abort closes the connection. Readers and writers return.
func (w *wsConn) abort() { w.once.Do(func() { _ = w.conn.Close() }) }

// closeFrame is a close frame with a code.
func closeFrame(code uint16) Frame {
	return Frame{wire: []byte{finBit | opClose, 2, byte(code >> 8), byte(code)}, head: 2, opcode: opClose}
}

// writeDirect writes one frame before the session has a writer, blocking for at most a bounded time.
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

// readPacket reads a message into scratch, and counts it in room where it is large.
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

// errNoRoom says that a message has been given up.
var errNoRoom = errors.New("engineio: there is no room for the message now: the bytes of limits.memory are taken")

// readAll reads all of r behind what is in buf. Above memory.Free it is counted in room, which nil does not.
func readAll(r io.Reader, buf []byte, room *memory.Hold) ([]byte, error) {
	for {
		if len(buf) == cap(buf) {
			size := max(2*cap(buf), 512)
			if cap(buf) > 1<<20 {
				size = cap(buf) / 4 * 5
			}
			if !room.TryGrow(int64(size)) {
				return buf, errNoRoom
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

// clientLoop reads until the connection or the session ends, and then sees to it that both do.
func (s *Session) clientLoop(w *wsConn) {
	defer s.partWS(w)
	w.below.pause = s.pause
	// Some proxies ping on the WebSocket's own level.
	w.gorilla.SetPingHandler(func(data string) error { return s.pongTo([]byte(data)) })
	for {
		kind, r, err := w.gorilla.NextReader()
		if err == nil {
			err = s.readMessage(kind, r)
		}
		if err != nil {
			s.readFailed(err)
			return
		}
	}
}

// readMessage reads what has begun to come and hands it on. The buffer is held only for that time: a session that waits has
// none.
func (s *Session) readMessage(kind int, r io.Reader) error {
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
	return s.handOver(p)
}

// handOver gives a packet to the receiver.
func (s *Session) handOver(p packet) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if !s.receive(p) {
		return ErrClosed
	}
	return nil
}

// --- reading, on both sides ---

func (s *Session) pause() {
	s.delivering.Store(true)
	s.receiver.Pause()
	s.delivering.Store(false)
}

func (s *Session) readFailed(err error) {
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

// partWS reads on for a moment, until the peer has seen our close frame and left, and closes the connection. A connection
// that is closed with data unread would be reset, and the peer might lose what was sent to it.
func (s *Session) partWS(w *wsConn) {
	w.setReadLimit(closeTimeout)
	if w.below != nil {
		w.below.pause = nil
	}
	_, _ = io.CopyN(io.Discard, w.conn, 1<<20)
	w.abort()
	s.mu.Lock()
	s.state = ended
	s.mu.Unlock()
	s.env.forget(s)
}

// --- writing ---

// A writing is what somebody who writes needs for the moment.
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

// writeLocked writes what is queued, in this goroutine as long as the network takes it at once, else in one of its own. It
// unlocks s.mu.
func (s *Session) writeLocked() {
	if s.writing {
		s.mu.Unlock()
		return
	}
	s.writing = true
	if s.ws.raw == nil {
		s.mu.Unlock()
		s.env.tasks.Go(func() { s.writeLoop(nil) })
		return
	}
	scratch := writeScratch.Get().(*writing)
	defer scratch.giveBack()
	for round := 0; ; round++ {
		batch := s.takeLocked()
		if len(batch) == 0 {
			s.stopWritingLocked() // unlocks
			break
		}
		s.mu.Unlock()
		if round == inlineRounds {
			s.env.tasks.Go(func() { s.writeLoop(batch) })
			break
		}
		rest, left, err := s.ws.try(batch, scratch)
		if err != nil {
			s.writeFailed(err)
			break
		}
		if len(rest) > 0 || len(left) > 0 {
			s.ws.left = append([]byte(nil), rest...)
			done := batch[:len(batch)-len(left)]
			s.written(done, nil)
			s.env.tasks.Go(func() { s.writeLoop(left) })
			break
		}
		s.written(batch, batch)
		s.mu.Lock()
	}
}

// takeLocked takes the whole queue.
func (s *Session) takeLocked() []item {
	if len(s.queue) == 0 {
		return nil
	}
	batch := s.queue
	s.queue = nil
	return batch
}

// written counts items as gone; queue is one that is no longer needed, or nil.
func (s *Session) written(items, queue []item) {
	size := 0
	for i := range items {
		size += items[i].size()
	}
	spare(queue)
	s.mu.Lock()
	s.frames -= len(items)
	s.bytes -= size
	if s.frames < 0 { // The queue was dropped meanwhile.
		s.frames, s.bytes = 0, 0
	}
	s.mu.Unlock()
}

// stopWritingLocked gives the writer's role back, after the close frame if the session has ended. It unlocks s.mu.
func (s *Session) stopWritingLocked() {
	if s.state == open {
		s.writing = false
		s.mu.Unlock()
		return
	}
	why := s.err
	s.mu.Unlock() // Nobody else will ever write.
	s.env.tasks.Go(func() {
		if err := s.ws.sayGoodbye(why); err != nil {
			s.ws.abort()
			return
		}
		// The server may not wait for the client to hang up: clients wait for the server (RFC 6455 §7.1.1).
		s.ws.setReadLimit(closeTimeout)
		if half, ok := s.ws.conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
}

// sayGoodbye writes the one close frame that a connection gets.
func (w *wsConn) sayGoodbye(why error) error {
	var broken *frameError
	switch {
	case errors.As(why, &broken):
		return w.writeDirect(broken.goodbye(), closeTimeout)
	case w.gorilla != nil && answeredByGorilla(why):
		return nil
	}
	return w.writeDirect(closeFrame(closeNormal), closeTimeout)
}

// answeredByGorilla reports whether an error of reading is one that gorilla/websocket has written a close frame for: that the
// server broke the rules of WebSocket, or its message is too long. These have no type, but a prefix that others have not.
func answeredByGorilla(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "websocket: ") && !errors.As(err, new(*websocket.CloseError))
}

func (s *Session) writeFailed(err error) {
	s.end(ReasonTransportError, err, aborted)
	s.ws.abort()
}

// writeLoop writes until the queue is empty. It owns s.writing.
func (s *Session) writeLoop(batch []item) {
	scratch := writeScratch.Get().(*writing)
	defer scratch.giveBack()
	if rest := s.ws.left; len(rest) > 0 {
		s.ws.left = nil
		if _, err := s.ws.conn.Write(rest); err != nil {
			s.writeFailed(err)
			return
		}
	}
	for {
		for whole := batch; len(batch) > 0; {
			data, n := s.ws.chunk(batch, scratch)
			if _, err := s.ws.conn.Write(data); err != nil {
				s.writeFailed(err)
				return
			}
			if len(batch) == n {
				s.written(batch, whole)
				break
			}
			s.written(batch[:n], nil)
			batch = batch[n:]
		}
		s.mu.Lock()
		batch = s.takeLocked()
		if len(batch) == 0 {
			s.stopWritingLocked() // unlocks
			return
		}
		s.mu.Unlock()
	}
}

// chunk puts items from the front of a batch together for one write.
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

// try writes a batch as far as the network takes it without blocking. rest is what is left of the last chunk, left the items
// that were not reached.
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

// noBuffers is a pool gorilla would take write buffers from. It never does: frames are written here.
type noBuffers struct{}

func (noBuffers) Get() any { return nil }
func (noBuffers) Put(any)  {}

// hijacker gives gorilla the connection also where a handler in between wraps the http.ResponseWriter.
type hijacker struct{ http.ResponseWriter }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}
