package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// resumeAfter is how long a client should wait before it resumes a broken stream (2025-11-25).
const resumeAfter = time.Second

// eventWriter writes a stream's events to one HTTP response.
type eventWriter struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	st        *serverStream
	ids       bool // events have ids, for resumption
	keepAlive time.Duration
	timeout   time.Duration
	buf       []byte
}

// openEvents prepares a response for events. ids says that the stream may be resumed. The first
// write includes the priming event of 2025-11-25, or a comment for clients that fail on an empty
// event. So some proxies do not delay the headers.
func (s *Server) openEvents(w http.ResponseWriter, st *serverStream, ids bool, version string, from int64) *eventWriter {
	h := w.Header()
	h["Content-Type"] = valueSSE
	h["Cache-Control"] = valueNoCache
	h["X-Accel-Buffering"] = valueNo
	o := &eventWriter{w: w, rc: http.NewResponseController(w), st: st, ids: ids, keepAlive: s.o.KeepAlive, timeout: s.o.WriteTimeout}
	// A stream lasts longer than any timeout of the HTTP server for requests.
	_ = o.rc.SetReadDeadline(time.Time{})
	if ids && version >= mcp.V20251125 {
		o.buf = AppendEvent(o.buf, Event{ID: st.eventID(from), Data: []byte{}, Retry: resumeAfter, HasRetry: true})
	} else {
		o.buf = AppendComment(o.buf, "stream")
	}
	return o
}

// pump writes events until the stream has ended, another connection carries it, or the client is
// gone.
func (o *eventWriter) pump(ctx context.Context, c *serverConn) {
	defer func() { _ = o.rc.SetWriteDeadline(time.Time{}) }()
	silence := time.NewTimer(o.keepAlive)
	defer silence.Stop()
	var evs []serverEvent
	for {
		var end bool
		evs, end = o.st.take(c, evs[:0])
		alive := true
		for _, ev := range evs {
			e := Event{Name: "message", Data: ev.data}
			if o.ids {
				e.ID = o.st.eventID(ev.seq)
			}
			alive = alive && o.put(e)
			ev.release()
		}
		if !alive || len(o.buf) > 0 {
			if !alive || !o.flush() {
				o.st.untake(c, evs)
				return
			}
			silence.Reset(o.keepAlive)
		}
		clear(evs)
		if end {
			return
		}
		if len(evs) > 0 {
			continue
		}
		select {
		case <-c.wake:
		case <-c.gone:
			return
		case <-ctx.Done():
			return
		case <-silence.C:
			o.buf = AppendComment(o.buf, "keep-alive")
		}
	}
}

// put appends an event to the buffer. It writes the lines of a large one without a copy, and reports whether the client
// is still there.
func (o *eventWriter) put(e Event) bool {
	if len(e.Data) <= maxTakeBytes {
		o.buf = AppendEvent(o.buf, e)
		return true
	}
	data := e.Data
	e.Data = nil
	o.buf = AppendEvent(o.buf, e)
	o.buf = o.buf[:len(o.buf)-1] // the blank line comes behind the data
	for more := true; more; {
		var line []byte
		line, data, more = cutLine(data)
		o.buf = append(o.buf, "data: "...)
		if len(o.buf)+len(line) > maxTakeBytes {
			if writeInTime(o.w, o.rc, o.buf, o.timeout) != nil {
				return false
			}
			o.buf = o.buf[:0]
		}
		if len(line) > maxTakeBytes {
			if writeInTime(o.w, o.rc, line, o.timeout) != nil {
				return false
			}
			line = nil
		}
		o.buf = append(append(o.buf, line...), '\n')
	}
	o.buf = append(o.buf, '\n')
	return true
}

// flush writes the buffer and reports whether the client is still there.
func (o *eventWriter) flush() bool {
	err := writeInTime(o.w, o.rc, o.buf, o.timeout)
	if cap(o.buf) > 2*maxTakeBytes {
		o.buf = nil
	}
	o.buf = o.buf[:0]
	return err == nil && o.rc.Flush() == nil
}

// serveGet opens a session's own stream, or resumes any of its streams.
func (s *Server) serveGet(w http.ResponseWriter, r *http.Request, closing bool) {
	id := r.Header.Get(HeaderSession)
	if id == "" && mcp.IsModern(r.Header.Get(HeaderVersion)) {
		notAllowed(w, "POST", r.Method) // 2026-07-28 has no GET
		return
	}
	if _, sse, wild := accepts(r.Header); !sse && !wild {
		guard.WriteError(w, http.StatusNotAcceptable, "", mcp.Errorf(mcp.KindInvalidRequest, "GET answers with text/event-stream; the Accept header must allow it"))
		return
	}
	sess, err := s.sessionOf(r, id)
	if err != nil {
		refuse(w, "", err)
		return
	}
	defer sess.release()
	st, after, err := sess.streamFor(r.Header)
	var lost lostError
	if errors.As(err, &lost) {
		s.answerLost(w, lost)
		return
	}
	if err == nil && closing && st == sess.own {
		err = s.errShuttingDown()
	}
	if err != nil {
		refuse(w, "", err)
		return
	}
	c, from := st.attach(after)
	out := s.openEvents(w, st, true, sess.mcp.Version(), from)
	ctx, end := guard.Lasting(r.Context())
	defer end()
	out.pump(ctx, c)
	if st == sess.own {
		st.detach(c)
		return
	}
	sess.connectionLost(st, c)
}

// lostError says that a client resumes the stream of a request that this Server does not have.
type lostError struct{ request jsonrpc.ID }

func (lostError) Error() string { return "the stream of the request is not kept" }

// answerLost answers a request whose stream is lost, with its process or because the client was away for too long.
// A refusal of the GET would not end the call: SDKs resume the stream again, wait for the answer until their patience
// ends, or give up the session.
func (s *Server) answerLost(w http.ResponseWriter, lost lostError) {
	err := mcp.Errorf(mcp.KindNodeGone, "the answer to this request is not kept any more, because the process that ran it has ended or the client was away for too long; it may have run: make the call again if that does no harm")
	err.Data = json.RawMessage(`{"kind":"node_gone","maybe_ran":true}`)
	h := w.Header()
	h["Content-Type"] = valueSSE
	h["Cache-Control"] = valueNoCache
	h["X-Accel-Buffering"] = valueNo
	event := AppendEvent(nil, Event{Name: "message", Data: jsonrpc.AppendError(nil, lost.request, mcp.WireError(err, ""))})
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	_ = writeInTime(w, rc, event, s.o.WriteTimeout) // the client comes again
}

// streamFor returns the stream that a GET asks for and the event to continue after, -1 for the
// first unsent event. That is where a client goes on that names the own stream of before the
// session was made again.
func (s *serverSession) streamFor(h http.Header) (*serverStream, int64, error) {
	last := h.Get(HeaderLastEventID)
	if last == "" {
		return s.own, -1, nil
	}
	name, seq, ok := parseEventID(last)
	if !ok {
		return nil, 0, mcp.Errorf(mcp.KindInvalidRequest, "Last-Event-ID is not an id that this server gave")
	}
	st, known := s.findStream(name)
	if request := requestOf(name); st == nil && request != "" {
		return nil, 0, lostError{request}
	}
	if st == nil {
		// Not 404: that would tell the client that its session is gone.
		return nil, 0, mcp.Errorf(mcp.KindInvalidRequest, "the stream of Last-Event-ID is not kept any more")
	}
	if !known {
		seq = -1
	}
	return st, seq, nil
}

// mark returns a text that distinguishes the streams of this session from the streams that it had
// before it was made again.
func (s *serverSession) mark() string {
	if s.own == nil {
		return ""
	}
	return strings.TrimPrefix(s.own.id, ownStreamID)
}

// findStream returns a stream that may be resumed. known is false for the own stream of the session
// before it was made again, whose events are gone.
func (s *serverSession) findStream(id string) (st *serverStream, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name, _, _ := strings.Cut(id, "."); name == ownStreamID {
		return s.own, id == s.own.id
	}
	return s.streams[id], true
}

// serveDelete ends a session. Its running calls are cancelled.
func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(HeaderSession)
	if id == "" && mcp.IsModern(r.Header.Get(HeaderVersion)) {
		notAllowed(w, "POST", r.Method) // 2026-07-28 has no sessions
		return
	}
	sess, err := s.sessionOf(r, id)
	if err != nil {
		refuse(w, "", err)
		return
	}
	if s.o.Sessions != nil {
		if err := s.o.Sessions.End(r.Context(), id); err != nil {
			sess.release()
			refuse(w, "", err)
			return
		}
		s.ended.Add(1)
	}
	sess.close(mcp.Errorf(mcp.KindCancelled, "the client ended the session"))
	sess.release()
	w.WriteHeader(http.StatusNoContent)
}

// sessionOf acquires the legacy session that a request names.
func (s *Server) sessionOf(r *http.Request, id string) (*serverSession, error) {
	if id == "" {
		return nil, mcp.Errorf(mcp.KindInvalidRequest, "the header Mcp-Session-Id is missing; initialize returns it")
	}
	if err := checkLegacyVersion(r.Header.Get(HeaderVersion)); err != nil {
		return nil, err
	}
	return s.acquire(r.Context(), id, guard.Principal(r.Context()))
}

// adopt makes the session of an id again that an earlier Server, or this one, has named. It returns
// nil if there is none.
func (s *Server) adopt(ctx context.Context, id, principal string) (*serverSession, error) {
	ended := s.ended.Load()
	of, err := s.o.Sessions.Adopt(ctx, id, principal)
	if err != nil || of == nil {
		return nil, err
	}
	sess, err := s.enter(legacySession, principal, id, of)
	if err != nil {
		return nil, err
	}
	if sess.mcp != of {
		return sess, sess.restored(ctx)
	}
	defer close(sess.ready)
	// A DELETE may have ended it after the question and before it was in the table again. Then it has been
	// counted, because the session that it ends leaves the table later.
	if s.ended.Load() != ended {
		if of, err = s.o.Sessions.Adopt(ctx, id, principal); err != nil || of == nil {
			sess.close(mcp.Errorf(mcp.KindCancelled, "the client ended the session"))
			sess.release()
			return nil, err
		}
	}
	// The client may give up on this request. The restored session is for all of its requests.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(sess.ctx, cancel)
	defer stop()
	s.o.Sessions.Restore(ctx, sess.mcp)
	return sess, nil
}

// restored waits until an adopted session is restored. It releases the session if the wait fails.
func (s *serverSession) restored(ctx context.Context) error {
	if s.ready == nil {
		return nil
	}
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		s.release()
		return context.Cause(ctx)
	}
}

// checkLegacyVersion checks the header MCP-Protocol-Version of a request with a session id
// (2025-06-18 and later; absent in older versions).
func checkLegacyVersion(v string) error {
	switch {
	case v == "":
		return nil
	case !mcp.Supported(v):
		return mcp.UnsupportedVersion(v)
	case mcp.IsModern(v):
		return mcp.Errorf(mcp.KindInvalidRequest, "protocol version %s has no sessions: leave out Mcp-Session-Id, or send the version that was negotiated", v)
	}
	return nil
}
