package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// A serverStream is a sequence of server-sent events: the events of one POST, or the events of a
// session that belong to no call. It outlives the connections that carry it:
//
//	       forgotten │ sent, kept for Last-Event-ID │ not sent
//	events ──────────┼──────────────────────────────┼───────────▶ push
//	                 first                          cursor ─▶ connection, at most one
//
// The store from which a lost connection is resumed is also the queue that prevents a slow client
// from blocking a handler.
type serverStream struct {
	id        string // "g" for the session's own stream, "c1-7" for the stream of the request 7; see ownStreamID, callStreamID
	maxEvents int
	maxBytes  int
	budgets   [2]*budget // the session's and the server's; they bound the sent events

	mu      sync.Mutex         // guards below
	events  []serverEvent      // ascending by seq
	last    int64              // seq of the newest event so far
	cursor  int64              // seq of the newest event given to a connection
	bytes   int                // of events
	unsent  int                // bytes of those past the cursor
	ended   bool               // no event will follow
	conn    *serverConn        // nil while no connection carries the stream
	abandon func(reason error) // cancels the calls of the stream while they run
	lastOff time.Time          // when conn became nil
	room    chan struct{}
	stalled bool // a wait for room was in vain and nothing was sent since
	dropped int  // notifications that did not fit
	expiry  *time.Timer
}

// serverConn is a connection that carries a stream.
type serverConn struct {
	wake chan struct{} // capacity 1: there are events to send
	gone chan struct{} // closed when another connection takes over the stream
}

// serverEvent is one message of a stream, which is a user of it.
type serverEvent struct {
	message
	seq  int64
	kind eventKind
}

type eventKind uint8

const (
	eventKeep     eventKind = iota // a request or a response
	eventNotice                    // a notification
	eventChanged                   // a notification that is redundant while an equal one waits
	eventProgress                  // notifications/progress: only the newest matters
)

func kindOfNotice(method string) eventKind {
	switch {
	case method == "notifications/progress":
		return eventProgress
	case method == "notifications/resources/updated", strings.HasSuffix(method, "/list_changed"):
		return eventChanged
	}
	return eventNotice
}

// budget is a number of bytes that several streams share.
type budget struct {
	max  int64
	used atomic.Int64
}

func (b *budget) over() bool { return b.used.Load() > b.max }

// coalesceFrom is the number of waiting events from which progress is coalesced. A smaller number
// is no sign of a slow client.
const coalesceFrom = 64

// maxWait is how long a notification waits for room on a live connection before one has to be
// dropped.
const maxWait = 250 * time.Millisecond

// notify appends a notification. If the stream is full and a connection carries it, notify waits
// briefly for the client to read. After a wait in vain it does not wait again until something was
// sent. It takes over the message.
func (s *serverStream) notify(ctx context.Context, kind eventKind, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := len(m.data)
	if s.coalesce(kind, m.data) {
		m.release()
		return
	}
	if s.full(size) && s.conn != nil && !s.stalled && !s.ended {
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		timer := time.NewTimer(maxWait)
		select {
		case <-room:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		s.mu.Lock()
		s.stalled = s.full(size)
	}
	if s.full(size) && !s.dropOldest() {
		s.dropped++
		m.release()
		return
	}
	s.append(kind, m)
}

// push appends a message that must arrive: a request or a response. It takes over the message.
func (s *serverStream) push(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(eventKeep, m)
}

// firstUnsent returns the index of the first event past the cursor.
func (s *serverStream) firstUnsent() int {
	return sort.Search(len(s.events), func(i int) bool { return s.events[i].seq > s.cursor })
}

func (s *serverStream) full(n int) bool {
	return s.unsent+n > s.maxBytes || len(s.events)-s.firstUnsent() >= s.maxEvents
}

// coalesce reports whether an event is redundant because an equal one waits. It removes an older
// progress notification of the same token.
func (s *serverStream) coalesce(kind eventKind, data []byte) bool {
	first := s.firstUnsent()
	switch kind {
	case eventChanged:
		for _, ev := range s.events[first:] {
			if ev.kind == eventChanged && bytes.Equal(ev.data, data) {
				return true
			}
		}
	case eventProgress:
		if len(s.events)-first < min(coalesceFrom, s.maxEvents) && !s.full(len(data)) {
			return false
		}
		token := rawjson.GetPath(data, "params", "progressToken")
		for i := len(s.events) - 1; i >= first; i-- {
			if ev := s.events[i]; ev.kind == eventProgress && bytes.Equal(token, rawjson.GetPath(ev.data, "params", "progressToken")) {
				s.remove(i)
				return false
			}
		}
	}
	return false
}

// dropOldest removes the oldest unsent notification and reports whether there was one.
func (s *serverStream) dropOldest() bool {
	for i := s.firstUnsent(); i < len(s.events); i++ {
		if s.events[i].kind != eventKeep {
			s.remove(i)
			s.dropped++
			return true
		}
	}
	return false
}

// unsentNotices returns the notifications that no connection has got: the newest ones of at most max bytes, in their
// order. While a connection carries the stream, it returns none: they are on their way.
func (s *serverStream) unsentNotices(max int) (notes []json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil || s.ended {
		return nil
	}
	first := s.firstUnsent()
	for i := len(s.events) - 1; i >= first; i-- {
		ev := s.events[i]
		if ev.kind == eventKeep {
			continue
		}
		if max -= len(ev.data); max < 0 {
			break
		}
		notes = append(notes, bytes.Clone(ev.data))
	}
	slices.Reverse(notes)
	return notes
}

func (s *serverStream) remove(i int) {
	n := len(s.events[i].data)
	s.account(-n)
	if s.events[i].seq > s.cursor {
		s.unsent -= n
	}
	s.events[i].release()
	if i == 0 {
		s.events[0] = serverEvent{}
		s.events = s.events[1:]
		return
	}
	s.events = slices.Delete(s.events, i, i+1)
}

func (s *serverStream) account(n int) {
	s.bytes += n
	for _, b := range s.budgets {
		b.used.Add(int64(n))
	}
}

func (s *serverStream) append(kind eventKind, m message) {
	if s.ended {
		m.release()
		return
	}
	s.last++
	s.events = append(s.events, serverEvent{message: m, seq: s.last, kind: kind})
	s.unsent += len(m.data)
	s.account(len(m.data))
	s.forget()
	if s.conn != nil {
		s.conn.signal()
	} else if s.budgets[1].over() {
		// The client does not read, and memory is short.
		s.dropOldest()
	}
}

// forget removes the oldest sent events until the bounds hold.
func (s *serverStream) forget() {
	for len(s.events) > 0 && s.events[0].seq <= s.cursor &&
		(len(s.events) > s.maxEvents || s.bytes > s.maxBytes || s.budgets[0].over() || s.budgets[1].over()) {
		s.remove(0)
	}
}

func (c *serverConn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// end marks the stream as complete. The connection ends when all events are sent.
func (s *serverStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.conn != nil {
		s.conn.signal()
	}
}

// attach makes a new connection carry the stream. It continues after the given event or, if after
// is negative, after the last event that was sent. An older connection is released, because its
// client is here.
func (s *serverStream) attach(after int64) (c *serverConn, from int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	if s.conn != nil {
		close(s.conn.gone)
	}
	if after >= 0 {
		s.moveTo(min(after, s.last))
	}
	s.conn = &serverConn{wake: make(chan struct{}, 1), gone: make(chan struct{})}
	s.stalled = false
	return s.conn, s.cursor
}

func (s *serverStream) moveTo(cursor int64) {
	s.cursor = cursor
	s.unsent = 0
	for _, ev := range s.events[s.firstUnsent():] {
		s.unsent += len(ev.data)
	}
}

// detach ends c's use of the stream, and reports whether c was still its connection.
func (s *serverStream) detach(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return false
	}
	s.conn = nil
	s.lastOff = time.Now()
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
	return true
}

// attached reports whether a connection carries the stream or did so within the given time.
func (s *serverStream) attached(within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil || within > 0 && !s.lastOff.IsZero() && time.Since(s.lastOff) < within
}

// finished reports whether everything has been sent and no connection reads any more.
func (s *serverStream) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.conn == nil && s.cursor == s.last
}

// Bounds of one write.
const (
	maxTake      = 64
	maxTakeBytes = 64 << 10
)

// take appends to dst the next events for c to send, which c releases. end says that there are none and will be none.
func (s *serverStream) take(c *serverConn, dst []serverEvent) (evs []serverEvent, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return dst, false
	}
	size := 0
	for i := s.firstUnsent(); i < len(s.events) && len(dst) < maxTake && size < maxTakeBytes; i++ {
		s.events[i].retain()
		dst = append(dst, s.events[i])
		size += len(s.events[i].data)
	}
	if len(dst) == 0 {
		return dst, s.ended
	}
	s.cursor = dst[len(dst)-1].seq
	s.unsent -= size
	s.stalled = false
	s.forget()
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
	return dst, false
}

// untake returns unsent events of take to the stream. Events that were forgotten meanwhile are
// lost.
func (s *serverStream) untake(c *serverConn, evs []serverEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c && len(evs) > 0 {
		s.moveTo(evs[0].seq - 1)
	}
}

// expire arranges for f to be called once the stream has been without a connection for d.
func (s *serverStream) expire(d time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return
	}
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.expiry = time.AfterFunc(d, f)
}

// answered marks the calls of the stream as returned and releases them with everything they refer
// to.
func (s *serverStream) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandon = nil
}

// cancelCalls cancels the calls of the stream that still run.
func (s *serverStream) cancelCalls(reason error) {
	s.mu.Lock()
	abandon := s.abandon
	s.mu.Unlock()
	if abandon != nil {
		abandon(reason)
	}
}

// discard forgets all events. Goroutines that still hold the stream find it ended; no others may
// use it.
func (s *serverStream) discard() (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.ended = true
	s.account(-s.bytes)
	for _, ev := range s.events {
		ev.release()
	}
	s.events, s.unsent = nil, 0
	if s.conn != nil {
		s.conn.signal()
	}
	return s.dropped
}

// eventID returns the id of an event: the stream and the event's place in it.
func (s *serverStream) eventID(seq int64) string {
	return s.id + "_" + strconv.FormatInt(seq, 10)
}

// maxRequestDigits bounds the ids of requests that the names of streams have. Longer ones, and texts, are left out.
const maxRequestDigits = 15

// callStreamID names a stream of calls. If it is of one request whose id is a number, the name ends with that: a Server
// that does not have the stream can answer the request, whose client would wait in vain.
func callStreamID(number int64, request jsonrpc.ID) string {
	id := "c" + strconv.FormatInt(number, 10)
	if isNumber(string(request)) {
		id += "-" + string(request)
	}
	return id
}

// requestOf returns the id of the request in the name of a stream, "" if it has none.
func requestOf(stream string) jsonrpc.ID {
	name, _, _ := strings.Cut(stream, ".")
	name, calls := strings.CutPrefix(name, "c")
	number, request, _ := strings.Cut(name, "-")
	if !calls || !isNumber(number) || !isNumber(request) {
		return ""
	}
	return jsonrpc.ID(request)
}

// isNumber reports whether a text is a short number as JSON writes it, without a sign.
func isNumber(s string) bool {
	if s == "" || len(s) > maxRequestDigits || s[0] == '0' && s != "0" {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// parseEventID is the inverse of eventID.
func parseEventID(id string) (stream string, seq int64, ok bool) {
	stream, n, ok := strings.Cut(id, "_")
	if !ok || stream == "" || len(id) > 64 {
		return "", 0, false
	}
	seq, err := strconv.ParseInt(n, 10, 64)
	return stream, seq, err == nil && seq >= 0
}
