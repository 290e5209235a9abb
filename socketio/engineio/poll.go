package engineio

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/memory"
)

const (
	// upgradeHold is how long a GET that comes during an upgrade is held before it gets its noop. A client that polls again
	// until its upgrade is through would spin without it.
	upgradeHold = 100 * time.Millisecond

	// partingHold is how long a POST of packet 1 waits for the GET that was sent together with it: the two travel on
	// connections of their own, and the GET deserves its noop when it comes second.
	partingHold = 50 * time.Millisecond

	// maxPosts bounds POSTs of one session that are read at the same time. Clients send one after the other.
	maxPosts = 4
)

// A poll is a GET that is held.
type poll struct {
	signal chan struct{} // capacity 1: look again
	since  time.Time
	final  []byte // the answer, where somebody else has decided it
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

// servePolling answers the GETs and POSTs of a session.
func (s *Server) servePolling(w http.ResponseWriter, r *http.Request, sid string) {
	session := s.session(sid)
	if session == nil {
		refuse(w, codeSessionUnknown)
		return
	}
	session.hear()
	switch r.Method {
	case http.MethodGet:
		session.serveGet(w, r)
	case http.MethodPost:
		session.servePost(w, r)
	default:
		refuse(w, codeBadRequest)
	}
}

// serveGet holds the request until there is something to say.
func (s *Session) serveGet(w http.ResponseWriter, r *http.Request) {
	p := &poll{signal: make(chan struct{}, 1), since: time.Now()}
	s.mu.Lock()
	switch expired, first := s.expiredLocked(), s.poll; {
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
	s.poll = p
	s.mu.Unlock()

	extendDeadlines(w, s.env.interval+s.env.timeout)
	defer clearDeadline(w)
	body, last := s.awaitPoll(r.Context(), p)

	s.mu.Lock()
	if s.poll == p {
		s.poll = nil
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
	if last {
		s.retire()
	}
}

var (
	errOverlap  = errors.New("two GETs at the same time")
	errAborted  = errors.New("the client gave up its GET")
	errManyPost = errors.New("too many POSTs at the same time")
)

// awaitPoll returns the answer to a GET, or nil where there is none. last says that the session has nothing more to say.
func (s *Session) awaitPoll(ctx context.Context, p *poll) (body []byte, last bool) {
	for {
		var hold <-chan time.Time
		var timer *time.Timer
		s.mu.Lock()
		switch {
		case p.final != nil:
			s.mu.Unlock()
			return p.final, true
		case s.ws != nil:
			s.mu.Unlock()
			return nil, false // An upgrade has come to its end.
		case len(s.queue) > 0:
			body = s.takePayloadLocked()
			s.mu.Unlock()
			return body, false
		case s.state == ending && s.parting != 0:
			body, s.parting = []byte{s.parting}, 0
			if s.told != nil {
				close(s.told)
				s.told = nil
			}
			s.mu.Unlock()
			return body, true
		case s.state != open:
			s.mu.Unlock()
			return nil, true
		case s.probed:
			held := time.Since(p.since)
			if held >= upgradeHold {
				s.mu.Unlock()
				return noopFrame.packet(), false
			}
			timer = time.NewTimer(upgradeHold - held)
			hold = timer.C
		}
		s.mu.Unlock()
		select {
		case <-p.signal:
		case <-hold:
		case <-ctx.Done():
			return nil, false
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// takePayloadLocked takes whole units from the queue as long as they fit into one poll. A unit that fits into none is split.
func (s *Session) takePayloadLocked() []byte {
	n, bytes := 0, 0
	for n < len(s.queue) {
		end, size := n, bytes
		for more := true; more && end < len(s.queue); end++ {
			size += payloadSize(s.queue[end].Frame)
			more = s.queue[end].more
		}
		if end > maxPollPackets || size > s.env.maxPayload {
			if n == 0 {
				n = min(end, maxPollPackets)
			}
			break
		}
		n, bytes = end, size
	}
	body := make([]byte, 0, bytes)
	size := 0
	for _, it := range s.queue[:n] {
		body = appendPacket(body, it.Frame)
		size += it.size()
	}
	rest := len(s.queue) - n
	copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	if rest == 0 {
		spare(s.queue)
		s.queue = nil
	}
	s.frames -= n
	s.bytes -= size
	return body
}

// endPollLocked says goodbye to a polling client: the held GET, or the next one within closeTimeout, gets what is queued and
// then the parting packet. It unlocks s.mu.
func (s *Session) endPollLocked(how manner) {
	s.parting = packetClose
	if how == byPeer {
		s.parting, s.told = packetNoop, make(chan struct{})
	}
	held := s.poll != nil
	s.poll.wake()
	if held || how == byPeer || how == graceful && s.reason != ReasonShutdown {
		// serveGet and servePost retire the session. A client that does not come any more is not waited for.
		hold := closeTimeout + s.env.timeout
		if s.probation.Load() {
			hold = closeTimeout // its place in the pool is wanted
		}
		s.timer = time.AfterFunc(hold, s.retire)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.retire()
}

// retire forgets an ended session.
func (s *Session) retire() {
	s.mu.Lock()
	if s.state == open { // Whoever ends it does so in a moment, and retires it.
		s.mu.Unlock()
		return
	}
	s.state, s.parting = ended, 0
	s.timer.Stop()
	s.dropQueueLocked()
	s.poll.wake()
	s.mu.Unlock()
	s.env.forget(s)
}

// servePost takes packets from the client.
func (s *Session) servePost(w http.ResponseWriter, r *http.Request) {
	limit := s.maxMessage(s.env.maxMessage)
	if r.ContentLength > int64(limit) {
		s.refuseLong(w, limit)
		return
	}
	s.mu.Lock()
	busy := s.posts >= s.maxPosts()
	refused := s.state != open || s.ws != nil || s.expiredLocked()
	if !busy && !refused {
		s.posts++
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
		s.posts--
		s.mu.Unlock()
	}()

	room := s.env.memory.Hold()
	defer room.Release()
	body, err := s.readBody(w, r, limit, &room)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		s.refuseLong(w, limit)
		return
	case err != nil:
		s.end(ReasonTransportClose, err, aborted)
		refuse(w, codeBadRequest)
		return
	}
	packets, err := decodePayload(body)
	if err != nil {
		s.end(ReasonParseError, err, aborted)
		refuse(w, codeBadRequest)
		return
	}
	if !s.deliver(packets) {
		refuse(w, codeBadRequest)
		return
	}
	s.awaitParting(r.Context())
	w.Header().Set("Content-Type", "text/html")
	write(w, http.StatusOK, []byte("ok"))
}

// readBody reads a POST. A client that sends slower than its session's heartbeat allows has lost its session anyway.
func (s *Session) readBody(w http.ResponseWriter, r *http.Request, limit int, room *memory.Hold) ([]byte, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.env.interval + s.env.timeout))
	return readAll(http.MaxBytesReader(w, r.Body, int64(limit)), nil, room)
}

// deliver hands packets to the session. It reports false if one of them was against the rules.
func (s *Session) deliver(packets []packet) bool {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	defer s.pause()
	for _, p := range packets {
		if !s.receive(p) {
			return p.kind == packetClose || p.kind == packetMessage
		}
	}
	return true
}

// awaitParting lets the POST that closed the session wait for a GET sent together with it, and retires the session.
func (s *Session) awaitParting(ctx context.Context) {
	s.mu.Lock()
	closed, told := s.reason == ReasonTransportClose && s.state == ending, s.told
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
	s.retire()
}

// --- HTTP ---

// extendDeadlines keeps the HTTP server's own time limits from ending a GET that is held on purpose.
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

// clearDeadline lets the response go out within our deadline and takes that away: a server without WriteTimeout sets none for
// the connection's next request, so ours must not stay.
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
	_, _ = w.Write(body) // A client that has left is noticed by its session's heartbeat.
}
