package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/store"
)

const (
	// maxWaiting bounds the bytes that wait to be written. A connection that has more ends.
	maxWaiting = 16 << 20
	// writeTime bounds a write. The deadline is renewed when half of it is over.
	writeTime = 8 * time.Second
	// atOnce bounds the bytes that the other process may not have read yet where a caller writes itself. The buffers of
	// a connection have room for as much, so the caller does not wait for that process.
	atOnce = 16 << 10
	// messageBuffer is the size of the buffer from which frames are read.
	messageBuffer = 16 << 10
)

// stream is a connection.
type stream struct {
	bus  *Messages
	conn net.Conn
	wake chan struct{} // capacity 1: frames wait for the goroutine of write
	done chan struct{} // closed by end
	send func()        // the method flush, bound once

	mu      sync.Mutex  // guards below
	waiting []byte      // frames
	spare   []byte      // the buffer of the next frames
	room    memory.Hold // of the frames that wait, and of those that are being written
	out     int         // bytes that are being written
	writing bool        // a goroutine writes, and sees to what waits when it has done so
	until   time.Time   // the deadline of writes; of the goroutine that writes
	ended   bool
	last    uint64              // question
	asked   map[uint64]question // nil when they have failed
	timer   *time.Timer         // calls expire; nil: not set yet
	fires   time.Time           // when timer does; zero: it is not set
	sent    uint64              // bytes of all frames
	seen    uint64              // of them, those that the other process has read: it has answered a question behind them
}

type question struct {
	f       func(store.Message, error)
	timeout time.Duration
	until   time.Time
	sent    uint64 // stream.sent behind the question
}

func newStream(b *Messages, conn net.Conn) *stream {
	s := &stream{bus: b, conn: conn, wake: make(chan struct{}, 1), done: make(chan struct{}), asked: map[uint64]question{}}
	s.send, s.room = s.flush, b.o.Room.Hold()
	return s
}

// end closes the connection, once. The goroutine of read fails the questions then.
func (s *stream) end() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	s.waiting, s.spare = nil, nil
	if !s.writing {
		s.room.Release()
	}
	s.mu.Unlock()
	close(s.done)
	_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // read ends now: with TLS, Close may wait for the other process
	_ = s.conn.Close()
}

// fail fails the questions of a connection that has ended.
func (s *stream) fail() {
	s.mu.Lock()
	asked := s.asked
	s.asked = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	for _, q := range asked {
		q.f(store.Message{}, errBroken)
	}
}

// reserve counts size more bytes that wait. The caller holds mu.
func (s *stream) reserve(size int) error {
	if err := s.room.Take(int64(len(s.waiting) + s.out + size)); err != nil {
		return noRoom(err)
	}
	return nil
}

// queue puts a message in line, and reports false if the connection has ended. If there is no room for the message, it
// returns true with an error. f gets the answer of a question; without f
// it is a Tell. It does not wait for the other process. The caller calls flush.
func (s *stream) queue(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (taken bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false, nil
	}
	if err := s.reserve(len(body)); err != nil {
		return true, err
	}
	if f == nil {
		s.put(kindTell, 0, subject, h, body)
		return true, nil
	}
	s.last++
	s.put(kindAsk, s.last, subject, h, body)
	q := question{f: f, timeout: timeout, until: time.Now().Add(timeout), sent: s.sent}
	s.asked[s.last] = q
	s.wakeAt(q.until)
	return true, nil
}

// wakeAt sets the timer to fire at a time, unless it fires earlier. Answers do not stop it: most come long before it
// fires, and one timer for all questions costs a question nothing. The caller holds mu.
func (s *stream) wakeAt(at time.Time) {
	switch {
	case s.timer == nil:
		s.timer = time.AfterFunc(time.Until(at), s.expire)
	case s.fires.IsZero() || at.Before(s.fires):
		s.timer.Reset(time.Until(at))
	default:
		return
	}
	s.fires = at
}

// expire fails the questions whose time is over, and sets the timer for the next one.
func (s *stream) expire() {
	now := time.Now()
	var late []uint64
	var next time.Time
	s.mu.Lock()
	s.fires = time.Time{}
	for id, q := range s.asked {
		switch {
		case !q.until.After(now):
			late = append(late, id)
		case next.IsZero() || q.until.Before(next):
			next = q.until
		}
	}
	if !next.IsZero() {
		s.wakeAt(next)
	}
	s.mu.Unlock()
	for _, id := range late {
		s.settle(id, store.Message{}, errLate)
	}
}

// put adds a frame to those that wait. The caller holds mu.
func (s *stream) put(kind byte, id uint64, subject string, h store.Header, body []byte) {
	b := s.waiting
	if b == nil {
		b, s.spare = s.spare, nil
	}
	at := len(b)
	b = begin(b, kind)
	if kind != kindTell {
		b = binary.AppendUvarint(b, id)
	}
	if kind == kindTell || kind == kindAsk {
		b = appendText(b, subject)
	}
	if kind != kindAbsent {
		b = binary.AppendUvarint(b, uint64(len(h)))
		for _, field := range h {
			b = appendText(appendText(b, field[0]), field[1])
		}
		b = append(b, body...)
	}
	end(b, at)
	s.waiting = b
	s.sent += uint64(len(b) - at)
}

// flush writes what waits, unless another goroutine does: here, or in the goroutine of write if the other process may not
// read at once.
func (s *stream) flush() { s.flushFor(false) }

// flushFor is flush. With now it may wait for the other process.
func (s *stream) flushFor(now bool) {
	s.mu.Lock()
	switch {
	case len(s.waiting) > maxWaiting:
		s.mu.Unlock()
		s.end() // the other process does not read
	case s.writing || len(s.waiting) == 0:
		s.mu.Unlock()
	case now || s.sent-s.seen <= atOnce:
		s.writeOnce()
		more := len(s.waiting) > 0
		s.mu.Unlock()
		if more {
			s.wakeUp() // else this caller would write for the others as long as they send
		}
	default:
		s.mu.Unlock()
		s.wakeUp()
	}
}

func (s *stream) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// writeOnce writes the frames that wait. The caller holds mu, which writeOnce releases meanwhile. No other goroutine
// writes.
func (s *stream) writeOnce() {
	s.writing = true
	b := s.waiting
	s.waiting, s.out = nil, len(b)
	s.mu.Unlock()
	var err error
	if now := time.Now(); s.until.Sub(now) < writeTime/2 {
		s.until = now.Add(writeTime)
		err = s.conn.SetWriteDeadline(s.until)
	}
	if err == nil {
		_, err = s.conn.Write(b)
	}
	if err != nil {
		s.end()
	}
	s.mu.Lock()
	if cap(b) <= keepBuffer && !s.ended {
		s.spare = b[:0]
	}
	if s.writing, s.out = false, 0; len(s.waiting) == 0 {
		s.room.Release()
	}
}

// write writes the frames of callers that must not block, and those that come while a caller writes.
func (s *stream) write() {
	for {
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
		s.mu.Lock()
		for len(s.waiting) > 0 && !s.writing { // a caller that writes wakes this goroutine again
			s.writeOnce()
		}
		s.mu.Unlock()
	}
}

// settle calls the function of a question, unless that has been done.
func (s *stream) settle(id uint64, m store.Message, err error) {
	s.mu.Lock()
	q, asked := s.asked[id]
	delete(s.asked, id)
	if asked && (err == nil || errors.Is(err, store.ErrNobody)) {
		s.seen = max(s.seen, q.sent)
	}
	s.mu.Unlock()
	if asked {
		if err == errLate {
			err = fmt.Errorf("%w: no answer within %v", store.ErrUnavailable, q.timeout)
		}
		q.f(m, err)
	}
}

// read takes frames until the connection ends.
func (s *stream) read() error {
	in := inbound{nc: s.conn, in: make([]byte, messageBuffer)}
	for {
		kind, n, err := in.next(maxMessage)
		if err != nil {
			return err
		}
		if err := s.next(&in, kind, n); err != nil {
			return err
		}
	}
}

// next takes a frame of n bytes and hands it on. A large one waits for room, and all behind it wait with it.
func (s *stream) next(in *inbound, kind byte, n int) error {
	room := s.bus.o.Room.Hold()
	defer room.Release()
	if err := room.Grow(s.bus.ctx, int64(n)); err != nil {
		return err
	}
	frame, err := in.take(n)
	if err != nil {
		return err
	}
	return s.take(kind, frame)
}

// take handles a frame, which it owns.
func (s *stream) take(kind byte, frame []byte) error {
	rest := reader{b: frame}
	var id uint64
	if kind != kindTell {
		id = rest.number()
	}
	subject := ""
	if kind == kindTell || kind == kindAsk {
		subject = string(rest.bytes())
	}
	m := store.Message{Subject: subject}
	if kind != kindAbsent {
		m.Header = rest.header()
		m.Body = rest.b
	}
	if rest.failed {
		return errFrame
	}
	switch kind {
	case kindTell:
		s.bus.hand(m)
	case kindAsk:
		m.Reply = func(h store.Header, body []byte) error {
			if err := store.CheckMessage(subject, h, body); err != nil {
				return err
			}
			return s.answer(kindAnswer, id, h, body)
		}
		if !s.bus.hand(m) {
			_ = s.answer(kindAbsent, id, nil, nil) // it fails with the connection
		}
	case kindAnswer:
		s.settle(id, m, nil)
	case kindAbsent:
		s.settle(id, m, store.ErrNobody)
	default:
		return errFrame
	}
	return nil
}

// answer answers a question of the other process. It may wait for that process, which reads answers as they come.
func (s *stream) answer(kind byte, id uint64, h store.Header, body []byte) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return fmt.Errorf("%w: the connection has ended", store.ErrUnavailable)
	}
	if err := s.reserve(len(body)); err != nil {
		s.mu.Unlock()
		return err
	}
	s.put(kind, id, "", h, body)
	s.mu.Unlock()
	s.flushFor(true)
	return nil
}
