package streamable

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Bounds of one session.
const (
	maxPending = 256 // requests to the client waiting for its answer
	maxStreams = 256 // streams kept for resumption, in addition to the streams of calls in flight
	// ownStreamID is the stream of messages that belong to no call. In a session that was made
	// again, it and the streams of calls have a mark behind a point, so that an event id of before
	// names none.
	ownStreamID = "g"
)

// sessionKind says how a session started, and therefore how it ends.
type sessionKind uint8

const (
	legacySession    sessionKind = iota // by initialize; the client names it in Mcp-Session-Id
	principalSession                    // of the modern era: one per principal
	requestSession                      // of one legacy request without a session
)

// serverSession is the transport's part of an mcp.Session: its calls, its streams and its requests
// to the client.
type serverSession struct {
	srv   *Server
	kind  sessionKind
	owner *principalState
	mcp   *mcp.Session
	ctx   context.Context // of everything that runs in the session; ends with it
	end   context.CancelCauseFunc
	held  budget        // bytes of events of its streams
	id    string        // in Server.sessions; the client's once it is named. Guarded by Server.mu
	ready chan struct{} // closed when an adopted session has been restored; nil in others

	mu       sync.Mutex               // guards below
	calls    []*serverCall            // few: a slice keeps less than a map when it is empty
	others   map[*serverCall]struct{} // modern: ids of several clients may be equal
	streams  map[string]*serverStream // of calls, for resumption
	own      *serverStream
	pending  map[int64]*pendingAsk
	lastAsk  int64
	lastCall int64 // numbers the streams
	active   int   // HTTP requests that use the session
	used     time.Time
	closed   bool
	idle     *time.Timer
}

// newSession makes a session and adds it to the tables. If there is no room, it ends the session
// that has been idle for longest. Another goroutine may take that place; newSession then ends
// another one, as long as there is an idle session. The session is in use, as after use.
func (s *Server) newSession(kind sessionKind, name string) (*serverSession, error) {
	return s.enter(kind, name, "", nil)
}

// enter adds a session to the tables, as newSession does: of, under its client's id, or a new one if
// of is nil. If a session with the id is there, enter returns that one.
func (s *Server) enter(kind sessionKind, name, id string, of *mcp.Session) (*serverSession, error) {
	for {
		s.mu.Lock()
		p := s.principals[name]
		if p == nil {
			p = &principalState{name: name}
			s.principals[name] = p
		}
		if kind == principalSession && p.modern != nil {
			sess := p.modern
			used := sess.use()
			s.mu.Unlock()
			if used {
				return sess, nil
			}
			continue // it has just ended of idleness and is leaving the table
		}
		if sess := s.sessions[id]; of != nil && sess != nil && sess.use() { // another request was faster
			s.dropPrincipal(p)
			s.mu.Unlock()
			return sess, nil
		}
		if s.requests.Closed() {
			s.dropPrincipal(p)
			s.mu.Unlock()
			return nil, s.errShuttingDown()
		}
		if kind != legacySession || len(s.sessions) < s.o.MaxSessions {
			sess := s.addSession(kind, p, id, of)
			s.mu.Unlock()
			return sess, nil
		}
		oldest := s.longestIdle()
		if oldest != nil && oldest.owner != p && oldest.owner.sessions < p.sessions {
			oldest = nil // a principal whose sessions are all in use takes none of one that has fewer
		}
		s.dropPrincipal(p)
		s.mu.Unlock()
		if oldest == nil {
			break
		}
		oldest.closeIdle(errReplaced)
	}
	return nil, mcp.Errorf(mcp.KindOverloaded, "there are too many sessions and all are in use; end one with DELETE")
}

// addSession adds a session to the tables. The caller holds s.mu.
func (s *Server) addSession(kind sessionKind, p *principalState, id string, of *mcp.Session) *serverSession {
	adopted := of != nil
	if !adopted {
		of = mcp.NewSession("", p.name)
		id = of.ID()
	}
	sess := &serverSession{srv: s, kind: kind, owner: p, id: id, mcp: of, used: time.Now(), active: 1}
	sess.held.max = s.o.MaxSessionBytes
	sess.ctx, sess.end = context.WithCancelCause(context.Background())
	s.sessions[id] = sess
	p.sessions++
	switch kind {
	case legacySession:
		s.legacy++
		s.o.OnSession(1, "")
		own := ownStreamID
		if adopted {
			sess.ready = make(chan struct{})
			own += "." + rand.Text()[:8]
		}
		sess.own = s.newStream(sess, own)
		sess.mcp.SetPeer(ownPeer{sess})
	case principalSession:
		p.modern = sess
	}
	if kind != requestSession {
		sess.idle = time.AfterFunc(s.o.SessionIdle, sess.checkIdle)
	}
	return sess
}

func (s *Server) newStream(sess *serverSession, id string) *serverStream {
	return &serverStream{id: id, maxEvents: s.o.MaxEvents, maxBytes: s.o.MaxEventBytes, budgets: [2]*budget{&sess.held, &s.held}}
}

// dropPrincipal removes a principal without sessions and calls. The caller holds s.mu.
func (s *Server) dropPrincipal(p *principalState) {
	if p.sessions == 0 {
		delete(s.principals, p.name)
	}
}

// errReplaced is the end of a session at MaxSessions.
var errReplaced error = mcp.Errorf(mcp.KindSessionNotFound, "the session was idle for long when a new one needed its place")

// enough is how many sessions longestIdle looks at, at least.
const enough = 1024

// longestIdle returns the session that has been unused for longest, of the principal with an unused one that has most
// sessions; nil if all are in use. It looks at enough sessions, in the random order of the map, for one that has been
// unused for long, so that a full Server does not look at all for each new one. The caller holds s.mu.
func (s *Server) longestIdle() (oldest *serverSession) {
	var since time.Time
	better := func(sess *serverSession) bool {
		if oldest == nil || sess.owner.sessions != oldest.owner.sessions {
			return oldest == nil || sess.owner.sessions > oldest.owner.sessions
		}
		return sess.used.Before(since)
	}
	looked := 0
	for _, sess := range s.sessions {
		if looked++; looked > enough && oldest != nil {
			break
		}
		if sess.kind != legacySession {
			continue
		}
		sess.mu.Lock()
		if sess.active == 0 && better(sess) {
			oldest, since = sess, sess.used
		}
		sess.mu.Unlock()
	}
	return oldest
}

// acquire returns the legacy session with an id, for the duration of one HTTP request. To another
// principal the session does not exist.
func (s *Server) acquire(ctx context.Context, id, principal string) (*serverSession, error) {
	s.mu.Lock()
	sess := s.sessions[id]
	s.mu.Unlock()
	if s.o.Sessions != nil && (sess == nil || sess.isClosed()) {
		if adopted, err := s.adopt(ctx, id, principal); err != nil || adopted != nil {
			return adopted, err
		}
	}
	if sess == nil || sess.kind != legacySession || sess.owner.name != principal || !sess.use() {
		return nil, mcp.Errorf(mcp.KindSessionNotFound, "no such session: it ended or never was; send initialize to start a new one")
	}
	return sess, sess.restored(ctx)
}

// name gives a session the id that its client gets, once. The handshake may still run: a response
// that became a stream starts before the handler has answered. request is the request of the
// handshake.
func (s *Server) name(sess *serverSession, request *mcp.Request) string {
	id := sess.mcp.ID()
	if s.o.Sessions == nil {
		return id
	}
	// Without mu: that would be held while the id is sealed. Two ids may be made; one is used.
	of := sess.mcp
	if of.Version() == "" {
		of = mcp.NewSession(id, of.Principal())
		if _, err := mcp.Handshaken(&mcp.Request{Params: request.Params, Session: of}); err != nil {
			return id // the handshake will fail
		}
	}
	id = s.o.Sessions.Name(of)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.id != sess.mcp.ID() {
		return sess.id
	}
	if s.sessions[sess.id] == sess { // it has not ended
		delete(s.sessions, sess.id)
		sess.id = id
		s.sessions[id] = sess
	}
	return id
}

func (s *serverSession) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// use counts an HTTP request that needs the session. It returns false if the session has ended.
// Each successful use needs a release.
func (s *serverSession) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active++
	return true
}

func (s *serverSession) release() {
	s.mu.Lock()
	s.active--
	s.used = time.Now()
	s.mu.Unlock()
	if s.kind == requestSession {
		s.close(context.Canceled)
	}
}

// checkIdle ends the session if it has been idle for long enough. Otherwise it schedules the next
// check.
func (s *serverSession) checkIdle() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	wait := s.srv.o.SessionIdle
	if s.active == 0 {
		wait -= time.Since(s.used)
	}
	if wait > 0 {
		s.idle.Reset(wait)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if !s.closeIdle(mcp.Errorf(mcp.KindSessionNotFound, "the session was idle for %v", s.srv.o.SessionIdle)) {
		s.checkIdle() // another request was faster: wait again
	}
}

// close ends the session: it cancels calls for the given reason and closes streams. Connections
// still carry the answers to cancelled calls.
func (s *serverSession) close(reason error) { s.closeWhere(reason, false) }

// closeIdle closes the session unless it is in use again, and reports whether it did.
func (s *serverSession) closeIdle(reason error) bool { return s.closeWhere(reason, true) }

func (s *serverSession) closeWhere(reason error, onlyIdle bool) (closed bool) {
	s.mu.Lock()
	if s.closed || onlyIdle && s.active > 0 {
		defer s.mu.Unlock()
		return s.closed
	}
	s.closed = true
	if s.idle != nil {
		s.idle.Stop()
	}
	streams := s.streams
	s.streams = nil
	own := s.own
	s.mu.Unlock()

	srv := s.srv
	srv.mu.Lock()
	if srv.sessions[s.id] == s {
		delete(srv.sessions, s.id)
	}
	s.owner.sessions--
	if s.kind == legacySession {
		srv.legacy--
		replaced := ""
		if reason == errReplaced {
			replaced = s.owner.name
		}
		srv.o.OnSession(-1, replaced)
	}
	if s.owner.modern == s {
		s.owner.modern = nil
	}
	srv.dropPrincipal(s.owner)
	srv.mu.Unlock()

	s.end(reason)
	s.mcp.Close()
	if own != nil {
		own.discard()
	}
	for _, st := range streams {
		if !st.attached(0) {
			st.discard()
		}
	}
	return true
}

// begin adds a call to the session.
func (s *serverSession) begin(c *serverCall) error {
	if n := s.owner.calls.Add(1); n > int64(s.srv.o.MaxPrincipalCalls) {
		s.owner.calls.Add(-1)
		return mcp.Errorf(mcp.KindOverloaded, "%d requests of this principal are in flight; wait for one to finish", n-1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.owner.calls.Add(-1)
		return mcp.Errorf(mcp.KindSessionNotFound, "the session has just ended")
	}
	if s.kind == principalSession {
		if s.others == nil {
			s.others = map[*serverCall]struct{}{}
		}
		s.others[c] = struct{}{}
		return nil
	}
	if s.callLocked(c.req.ID) != nil {
		s.owner.calls.Add(-1)
		return mcp.Errorf(mcp.KindInvalidRequest, "request id %s is in use by a request in flight", c.req.ID)
	}
	s.calls = append(s.calls, c)
	return nil
}

// callLocked returns the call in flight with an id, or nil. The caller holds s.mu.
func (s *serverSession) callLocked(id jsonrpc.ID) *serverCall {
	for _, c := range s.calls {
		if c.req.ID == id {
			return c
		}
	}
	return nil
}

// done removes a call from the session, so that its id may be used again.
func (s *serverSession) done(c *serverCall) {
	s.owner.calls.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind == principalSession {
		delete(s.others, c)
	} else {
		if i := slices.Index(s.calls, c); i >= 0 {
			s.calls = slices.Delete(s.calls, i, i+1)
		}
	}
}

func (s *serverSession) inFlight() []*serverCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*serverCall, 0, len(s.calls)+len(s.others))
	all = append(all, s.calls...)
	for c := range s.others {
		all = append(all, c)
	}
	return all
}

// cancelled handles notifications/cancelled, which can only mean a request of this session.
func (s *serverSession) cancelled(params []byte) {
	id := jsonrpc.ID(rawjson.Get(params, "requestId"))
	s.mu.Lock()
	c := s.callLocked(id)
	s.mu.Unlock()
	if c != nil && c.req.Method != "initialize" {
		c.cancel(mcp.Errorf(mcp.KindCancelled, "the client cancelled the request"))
	}
}

// openStream makes the stream of calls, which abandon cancels. request is the id of a call that is the only one in
// it. If the session keeps too many streams, one that has been sent completely is removed.
func (s *serverSession) openStream(request jsonrpc.ID, abandon func(reason error)) *serverStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastCall++
	st := s.srv.newStream(s, callStreamID(s.lastCall, request)+s.mark())
	st.abandon = abandon
	if s.kind != legacySession || s.closed {
		return st
	}
	if len(s.streams) >= maxStreams {
		for id, old := range s.streams {
			if old.finished() {
				old.discard()
				delete(s.streams, id)
				break
			}
		}
	}
	if s.streams == nil {
		s.streams = map[string]*serverStream{}
	}
	s.streams[st.id] = st
	return st
}

// connectionLost is called when a connection has stopped carrying the stream of a call. For a while the
// client may return for the missing events. After that, a call that still runs is cancelled,
// because its answer has no receiver.
func (s *serverSession) connectionLost(st *serverStream, c *serverConn) {
	if !st.detach(c) {
		return // another connection carries the stream now
	}
	s.mu.Lock()
	kept := !s.closed && s.streams[st.id] == st
	s.mu.Unlock()
	if !kept {
		st.cancelCalls(errGone)
		s.warnDropped(st)
		return
	}
	window := s.srv.o.ResumeWindow
	st.expire(window, func() {
		s.mu.Lock()
		delete(s.streams, st.id)
		s.mu.Unlock()
		st.cancelCalls(mcp.Errorf(mcp.KindCancelled, "the client went away and did not come back within %v", window))
		s.warnDropped(st)
	})
}

func (s *serverSession) warnDropped(st *serverStream) {
	if n := st.discard(); n > 0 {
		s.srv.log.Warn("a client was too slow for its notifications", "principal", s.owner.name, "dropped", n)
	}
}

var errGone = mcp.Errorf(mcp.KindCancelled, "the client went away")

// pendingAsk is a request to the client.
type pendingAsk struct {
	ctx    context.Context // of the call that asks, in whose memory the answer is
	answer chan askAnswer  // capacity 1
	back   mcp.Handler     // handles the client's progress; may be nil
	token  json.RawMessage

	mu   sync.Mutex // held while back runs
	over bool       // guarded by mu
}

type askAnswer struct {
	result json.RawMessage
	err    error
}

// ask sends a request to the client on a stream and waits for the answer, which arrives with
// another POST.
func (s *serverSession) ask(ctx context.Context, st *serverStream, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	p := &pendingAsk{ctx: ctx, answer: make(chan askAnswer, 1), back: back}
	s.mu.Lock()
	if s.closed || len(s.pending) >= maxPending {
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return nil, mcp.Errorf(mcp.KindNoBackChannel, "%s cannot reach the client: its session has ended", method)
		}
		return nil, mcp.Errorf(mcp.KindOverloaded, "%d requests wait for the client's answers", maxPending)
	}
	s.lastAsk++
	n := s.lastAsk
	s.mu.Unlock()

	params, token, err := mcp.SwapProgressToken(params, n)
	if err != nil {
		return nil, err
	}
	p.token = token
	s.mu.Lock()
	if s.pending == nil {
		s.pending = map[int64]*pendingAsk{}
	}
	s.pending[n] = p
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.pending, n)
		s.mu.Unlock()
		p.mu.Lock() // waits until back has returned
		p.over = true
		p.mu.Unlock()
	}()
	id := jsonrpc.IntID(n)
	m, err := newRequest(ctx, id, method, params)
	if err != nil {
		return nil, err
	}
	st.push(m)
	select {
	case a := <-p.answer:
		return a.result, a.err
	case <-ctx.Done():
		gone := append(append([]byte(`{"requestId":`), id...), '}')
		st.notify(ctx, eventNotice, message{data: jsonrpc.AppendNotification(nil, "notifications/cancelled", gone)})
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, mcp.Errorf(mcp.KindNoBackChannel, "the session ended before the client answered %s", method)
	}
}

// answered hands a response of the client to the goroutine that sent the request.
func (s *serverSession) answered(m *jsonrpc.Message) {
	n, ok := m.ID.Int()
	s.mu.Lock()
	p := s.pending[n]
	if ok {
		delete(s.pending, n) // a second answer is ignored
	}
	s.mu.Unlock()
	if !ok || p == nil {
		s.srv.log.Debug("a response to no request in flight", "principal", s.owner.name)
		return
	}
	var a askAnswer
	if m.Err != nil {
		a.err = jsonrpc.ParseError(m.Err)
	} else {
		made, err := memory.Make(p.ctx, nil, func(w io.Writer) error {
			_, err := w.Write(m.Result)
			return err
		})
		a.result, a.err = made, mcp.NoRoom("the client's answer", err)
	}
	p.answer <- a
}

// progressed hands the client's progress on a request of the server to the goroutine that sent it,
// and reports whether there is one.
func (s *serverSession) progressed(ctx context.Context, r *mcp.Request) bool {
	n, ok := jsonrpc.ID(rawjson.Get(r.Params, "progressToken")).Int()
	if !ok {
		return false
	}
	s.mu.Lock()
	p := s.pending[n]
	s.mu.Unlock()
	if p == nil || p.token == nil || p.back == nil {
		return false
	}
	params, err := rawjson.Set(r.Params, "progressToken", p.token)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return true
	}
	restored := *r
	restored.Params = params
	if _, err := p.back.Serve(ctx, &restored); err != nil {
		s.srv.log.Debug("progress of the client was not taken", "err", err)
	}
	return true
}

// ownPeer reaches the client outside any call, on the stream that the client opens with GET.
type ownPeer struct{ s *serverSession }

// Call implements mcp.Peer. It fails fast if the client has not had the GET stream open within
// ResumeWindow.
func (p ownPeer) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if !p.s.own.attached(p.s.srv.o.ResumeWindow) {
		return mcp.NoPeer.Call(ctx, method, params, back)
	}
	return p.s.ask(ctx, p.s.own, method, params, back)
}

// Notify implements mcp.Peer. Without an open stream the notification is kept, within bounds.
func (p ownPeer) Notify(ctx context.Context, method string, params json.RawMessage) error {
	m, err := newNotification(ctx, method, params)
	if err == nil {
		p.s.own.notify(ctx, kindOfNotice(method), m)
	}
	return err
}
