package engineio

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

const (
	// upgradeHold is how long a GET during an upgrade is held before it gets its noop. Without it,
	// a client that polls during its upgrade would spin.
	upgradeHold = 100 * time.Millisecond

	// partingHold is how long a POST of packet 1 waits for the GET that was sent with it. The two
	// use different connections, and the GET must get its noop even if it arrives second.
	partingHold = 50 * time.Millisecond

	// maxPosts bounds how many POSTs of one session are read at the same time. Clients send one
	// after the other.
	maxPosts = 4
)

// polling carries a server's session by GETs and POSTs until an upgrade replaces it with a wsConn.
// Session.mu guards its fields.
type polling struct {
	session *Session

	poll      *poll         // the held GET; nil: none
	posts     int           // POSTs being read
	parting   byte          // the answer to the last GET: packetClose, packetNoop or 0
	told      chan struct{} // closed when a GET has taken the closing packet of a client that closed
	upgrading bool          // a WebSocket has arrived and has not sent its packet 5 yet
	probed    bool          // the WebSocket has sent its probe, so polling stops
}

var _ carrier = (*polling)(nil)

func (p *polling) transport() Transport { return Polling }

func (p *polling) flushLocked() {
	p.poll.wake()
	p.session.mu.Unlock()
}

// poll is a held GET.
type poll struct {
	signal chan struct{} // capacity 1: check again
	since  time.Time
	final  []byte // the answer, if another request has set it
}

func (p *poll) wake() {
	if p == nil {
		return
	}
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// servePolling handles the GETs and POSTs of a session.
func (s *Server) servePolling(w http.ResponseWriter, r *http.Request, sid string) {
	session := s.session(sid)
	if session == nil {
		refuse(w, codeSessionUnknown)
		return
	}
	session.hear()
	session.mu.Lock()
	p, polls := session.carrier.(*polling)
	session.mu.Unlock()
	switch {
	case polls && r.Method == http.MethodGet:
		p.serveGet(w, r)
	case polls && r.Method == http.MethodPost:
		p.servePost(w, r)
	default:
		refuse(w, codeBadRequest)
	}
}

// serveGet holds the request until there are packets to send.
func (p *polling) serveGet(w http.ResponseWriter, r *http.Request) {
	s := p.session
	held := &poll{signal: make(chan struct{}, 1), since: time.Now()}
	s.mu.Lock()
	switch expired, first := p.overdueLocked(), p.poll; {
	case expired:
		s.mu.Unlock()
		s.end(ReasonPingTimeout, nil, aborted)
		refuse(w, codeSessionUnknown)
		return
	case first != nil:
		first.final = []byte{packetClose}
		first.wake()
		s.mu.Unlock()
		s.end(ReasonTransportError, errOverlap, aborted)
		refuse(w, codeBadRequest)
		return
	}
	p.poll = held
	s.mu.Unlock()

	extendDeadlines(w, s.env.interval+s.env.timeout)
	defer clearDeadline(w)
	body, frames, last := p.awaitPoll(r.Context(), held)

	s.mu.Lock()
	if p.poll == held {
		p.poll = nil
	}
	s.mu.Unlock()
	switch {
	case body == nil && r.Context().Err() != nil:
		s.end(ReasonTransportClose, errAborted, aborted)
	case body == nil:
		refuse(w, codeBadRequest)
	default:
		writePayload(w, body)
	}
	s.wrote(frames, len(body))
	if last {
		p.retire()
	}
}

var (
	errOverlap  = errors.New("two GETs at the same time")
	errAborted  = errors.New("the client gave up its GET")
	errManyPost = errors.New("too many POSTs at the same time")
)

// awaitPoll returns the answer to a GET, or nil if there is none. last means that the session has
// nothing more to send. The caller calls Session.wrote with the frames of the answer.
func (p *polling) awaitPoll(ctx context.Context, held *poll) (body []byte, frames int, last bool) {
	s := p.session
	for {
		var hold <-chan time.Time
		var timer *time.Timer
		s.mu.Lock()
		switch {
		case held.final != nil:
			s.mu.Unlock()
			return held.final, 0, true
		case s.carrier != carrier(p):
			s.mu.Unlock()
			return nil, 0, false // an upgrade has completed
		case len(s.queue.items) > 0:
			body, frames, err := s.queue.takePayload(s.env.maxPayload, s.env.memory)
			s.mu.Unlock()
			if err != nil {
				s.end(ReasonSlowConsumer, err, aborted)
			}
			return body, frames, false
		case s.state == ending && p.parting != 0:
			body, p.parting = []byte{p.parting}, 0
			if p.told != nil {
				close(p.told)
				p.told = nil
			}
			s.mu.Unlock()
			return body, 0, true
		case s.state != open:
			s.mu.Unlock()
			return nil, 0, true
		case p.probed:
			waited := time.Since(held.since)
			if waited >= upgradeHold {
				s.mu.Unlock()
				return noopFrame.packet(), 0, false
			}
			timer = time.NewTimer(upgradeHold - waited)
			hold = timer.C
		}
		s.mu.Unlock()
		select {
		case <-held.signal:
		case <-hold:
		case <-ctx.Done():
			return nil, 0, false
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// wrote subtracts the frames of a payload that has been written from the counts of the queue.
func (s *Session) wrote(frames, size int) {
	if frames == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.sent(frames, size)
}

// endLocked answers the held GET, or the next one within closeTimeout: first with the queue, then
// with the closing packet.
func (p *polling) endLocked(how manner) {
	s := p.session
	p.parting = packetClose
	if how == byPeer {
		p.parting, p.told = packetNoop, make(chan struct{})
	}
	held := p.poll != nil
	p.poll.wake()
	if held || how == byPeer || how == graceful && s.reason != ReasonShutdown {
		// serveGet and servePost retire the session. The timer retires it if the client does not
		// return.
		hold := closeTimeout + s.env.timeout
		if s.probation.Load() {
			hold = closeTimeout // its place in the pool is needed
		}
		s.heart.timer = time.AfterFunc(hold, p.retire)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	p.retire()
}

// overdueLocked reports whether the pong is late. It serves requests that arrive before the timer
// fires.
func (p *polling) overdueLocked() bool {
	s := p.session
	return s.state == open && !s.delivering.Load() && s.heart.overdue(s.env.timeout)
}

// retire forgets an ended session.
func (p *polling) retire() {
	s := p.session
	s.mu.Lock()
	if s.state == open { // the goroutine that ends it retires it in a moment
		s.mu.Unlock()
		return
	}
	s.state, p.parting = ended, 0
	s.heart.timer.Stop()
	s.queue.drop()
	p.poll.wake()
	s.mu.Unlock()
	s.env.forget(s)
}

// servePost handles packets from the client.
func (p *polling) servePost(w http.ResponseWriter, r *http.Request) {
	s := p.session
	limit := s.maxMessage(s.env.maxMessage)
	if r.ContentLength > int64(limit) {
		p.refuseLong(w, limit)
		return
	}
	s.mu.Lock()
	busy := p.posts >= p.maxPosts()
	refused := s.state != open || s.carrier != carrier(p) || p.overdueLocked()
	if !busy && !refused {
		p.posts++
	}
	s.mu.Unlock()
	switch {
	case refused:
		refuse(w, codeBadRequest)
		return
	case busy:
		s.end(ReasonTransportError, errManyPost, aborted)
		refuse(w, codeBadRequest)
		return
	}
	defer func() {
		s.mu.Lock()
		p.posts--
		s.mu.Unlock()
	}()

	room := s.env.memory.Hold()
	defer room.Release()
	body, err := p.readBody(w, r, limit, &room)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		p.refuseLong(w, limit)
		return
	case errors.Is(err, ErrNoRoom):
		p.refuseFull(w)
		return
	case err != nil:
		s.end(ReasonTransportClose, err, aborted)
		refuse(w, codeBadRequest)
		return
	}
	packets, err := decodePayload(body, &room)
	switch {
	case errors.Is(err, ErrNoRoom):
		p.refuseFull(w)
		return
	case err != nil:
		s.end(ReasonParseError, err, aborted)
		refuse(w, codeBadRequest)
		return
	}
	if !s.deliver(packets) {
		refuse(w, codeBadRequest)
		return
	}
	p.awaitParting(r.Context())
	w.Header().Set("Content-Type", "text/html")
	write(w, http.StatusOK, []byte("ok"))
}

// refuseFull ends the session of a POST that finds no room: its packets are lost.
func (p *polling) refuseFull(w http.ResponseWriter) {
	p.session.end(ReasonTransportError, ErrNoRoom, aborted)
	w.Header().Set("Connection", "close") // the rest of the body is not read
	writeJSON(w, http.StatusServiceUnavailable, refusalBody(codeBadRequest, ErrNoRoom.Error()))
}

// readBody reads a POST. If the client sends slower than the heartbeat allows, its session is lost
// anyway.
func (p *polling) readBody(w http.ResponseWriter, r *http.Request, limit int, room *memory.Hold) ([]byte, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.session.env.interval + p.session.env.timeout))
	return readAll(http.MaxBytesReader(w, r.Body, int64(limit)), nil, room)
}

// awaitParting makes the POST that closed the session wait for a GET sent with it. Then it retires
// the session.
func (p *polling) awaitParting(ctx context.Context) {
	s := p.session
	s.mu.Lock()
	closed, told := s.reason == ReasonTransportClose && s.state == ending, p.told
	s.mu.Unlock()
	if !closed {
		return
	}
	if told != nil {
		timer := time.NewTimer(partingHold)
		defer timer.Stop()
		select {
		case <-told:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	p.retire()
}

// --- HTTP ---

// extendDeadlines keeps the HTTP server's timeouts from ending a held GET.
func extendDeadlines(w http.ResponseWriter, hold time.Duration) {
	control := http.NewResponseController(w)
	deadline := time.Now().Add(hold + closeTimeout)
	_ = control.SetReadDeadline(deadline)
	_ = control.SetWriteDeadline(deadline)
}

func writePayload(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	write(w, http.StatusOK, body)
}

// clearDeadline sets a deadline for the response and removes it afterwards. A server without
// WriteTimeout sets none for the next request on the connection, so ours must not remain.
func clearDeadline(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the heartbeat notices a client that has left
}
