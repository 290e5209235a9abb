package sse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/inflight"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// ServerOptions configures a Server. Zero durations and bounds mean the defaults given below.
type ServerOptions struct {
	// Handler serves all messages. It must not be nil. Its contexts have the values of the context
	// of the GET that opened the connection.
	Handler mcp.Handler
	// MessagePath returns the path to which the client of a GET posts its messages. By default it
	// is the path of the GET with a last element "sse" replaced by "messages". A path without that
	// element is used as it is.
	MessagePath func(r *http.Request) string
	// NewID returns the id of a new session, which must be hard to guess: it is in the path to which the client
	// posts. It is called concurrently. Nil makes a random one.
	NewID func() string
	// KeepAlive is the silence after which a comment is sent: 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout bounds the time in which a client must read one write. After it the connection
	// counts as lost. The default is 30 seconds.
	WriteTimeout time.Duration
	// MaxBody bounds a posted message: 10 MB.
	MaxBody int64
	// Memory counts the bytes of posted messages; nil sets no bound.
	Memory *memory.Pool
	// MaxConns bounds the open connections (1,000) and MaxPrincipalConns the connections of one
	// principal (100).
	MaxConns, MaxPrincipalConns int
	// Logger gets failures; nil discards them.
	Logger *slog.Logger
}

// maxIncoming is how many posted messages wait to be handled. Further POSTs block.
const maxIncoming = 64

// Server is the http.Handler of the transport of 2024-11-05: GET opens a connection, POST sends a
// message on one. Mount it on both paths. guard.Principal names the client, so wrap the Server in a
// guard.Guard. Call Shutdown to end it. It is safe for concurrent use.
type Server struct {
	o       ServerOptions
	log     *slog.Logger
	stop    context.Context // ends when Shutdown stops waiting for handlers
	stopNow context.CancelCauseFunc

	requests inflight.Group // requests that handlers serve; closed by Shutdown
	streams  inflight.Group // connections

	mu         sync.Mutex // guards below
	conns      map[string]*serverConn
	principals map[string]int // connections per principal
}

// serverConn is one open GET.
type serverConn struct {
	principal string
	stream    *serverStream
	// newest has the credential of the latest message. A client whose token was renewed keeps its
	// stream.
	newest atomic.Pointer[http.Request]
}

// NewServer returns a Server. It starts nothing before the first request.
func NewServer(o ServerOptions) *Server {
	if o.KeepAlive <= 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 10 << 20
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 1000
	}
	if o.MaxPrincipalConns <= 0 {
		o.MaxPrincipalConns = 100
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NewID == nil {
		o.NewID = func() string { return "" } // NewSession makes one
	}
	if o.MessagePath == nil {
		o.MessagePath = messagePath
	}
	s := &Server{o: o, log: o.Logger, conns: map[string]*serverConn{}, principals: map[string]int{}}
	s.stop, s.stopNow = context.WithCancelCause(context.Background())
	return s
}

// messagePath returns the path that the client of a GET posts to, as the client sees it: the server
// may be mounted below a prefix that has been stripped.
func messagePath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		path = u.EscapedPath()
	}
	if base, ok := strings.CutSuffix(path, "/sse"); ok {
		return base + "/messages"
	}
	return path
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		s.serveGet(w, r)
	case http.MethodPost:
		s.servePost(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: GET, POST", r.Method))
	}
}

func refuse(w http.ResponseWriter, id jsonrpc.ID, err error) {
	k, _ := mcp.KindOf(err)
	guard.WriteError(w, k.Info().HTTP, id, err)
}

func errShuttingDown() error {
	return mcp.Errorf(mcp.KindShuttingDown, "weir is shutting down; try again when it is back")
}

// serveGet opens a connection and keeps it until either side ends it.
func (s *Server) serveGet(w http.ResponseWriter, r *http.Request) {
	principal := guard.Principal(r.Context())
	session := mcp.NewSession(s.o.NewID(), principal)
	stream := &serverStream{
		w: w, rc: http.NewResponseController(w), timeout: s.o.WriteTimeout,
		in: make(chan posted, maxIncoming), closed: make(chan struct{}), answered: make(chan struct{}, 1),
	}
	c := &serverConn{principal: principal, stream: stream}
	if err := s.open(session.ID(), c); err != nil {
		refuse(w, "", err)
		return
	}
	defer s.close(session.ID(), principal)
	h := w.Header()
	h.Set("Content-Type", streamable.ContentSSE)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	// A stream lasts longer than any timeout of the HTTP server for requests.
	_ = stream.rc.SetReadDeadline(time.Time{})
	endpoint := s.o.MessagePath(r) + "?sessionId=" + url.QueryEscape(session.ID())
	if err := stream.write(streamable.AppendEvent(nil, streamable.Event{Name: "endpoint", Data: []byte(endpoint)})); err != nil {
		_ = stream.Close()
		session.Close()
		return
	}
	opened := context.WithoutCancel(r.Context())
	serve := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		return s.handle(withValues{ctx, opened}, r)
	}
	conn := mcp.NewConn(stream, mcp.ConnOptions{Name: "the client", Handler: mcp.HandlerFunc(serve), Session: session, Logger: s.log})
	defer conn.Close()
	lasting, end := guard.Lasting(r.Context())
	defer func() { end() }()
	keepAlive := time.NewTicker(s.o.KeepAlive)
	defer keepAlive.Stop()
	for {
		select {
		case <-conn.Done():
			return
		case <-stream.closed:
			return
		case <-lasting.Done():
			later := c.newest.Swap(nil)
			kind, _ := mcp.KindOf(context.Cause(lasting))
			if later == nil || r.Context().Err() != nil || kind == mcp.KindShuttingDown {
				return
			}
			end()
			lasting, end = guard.LastingBy(r.Context(), later)
		case <-keepAlive.C:
			if stream.write(streamable.AppendComment(nil, "keep-alive")) != nil {
				return
			}
		}
	}
}

func (s *Server) open(id string, c *serverConn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.requests.Closed():
		return errShuttingDown()
	case len(s.conns) >= s.o.MaxConns || s.principals[c.principal] >= s.o.MaxPrincipalConns:
		return mcp.Errorf(mcp.KindOverloaded, "there are too many open connections; close one")
	}
	s.conns[id] = c
	s.principals[c.principal]++
	s.streams.Enter()
	return nil
}

func (s *Server) close(id, principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, id)
	if s.principals[principal]--; s.principals[principal] <= 0 {
		delete(s.principals, principal)
	}
	s.streams.Leave()
}

// withValues is a context that also has the values of another one: the context of the GET that
// opened the connection.
type withValues struct {
	context.Context
	opened context.Context
}

func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.opened.Value(key)
}

// handle calls the Handler with the context that it expects. If the server ends meanwhile, handle
// returns an error for that.
func (s *Server) handle(ctx context.Context, r *mcp.Request) (result json.RawMessage, err error) {
	if r.IsNotification() {
		return s.o.Handler.Serve(ctx, r)
	}
	open := s.requests.Enter()
	defer s.requests.Leave()
	if !open {
		return nil, errShuttingDown()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.stop, func() { cancel(context.Cause(s.stop)) })()
	result, err = s.o.Handler.Serve(ctx, r)
	if err != nil && s.stop.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(s.stop)
	}
	return result, err
}

// servePost accepts one message for an open connection. The answer to a request is sent on that
// connection.
func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("sessionId")
	if id == "" {
		refuse(w, "", mcp.Errorf(mcp.KindInvalidRequest, "sessionId is missing: GET this server's event stream first and post to the address it tells"))
		return
	}
	if t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(t), streamable.ContentJSON) {
		guard.WriteError(w, http.StatusUnsupportedMediaType, "", mcp.Errorf(mcp.KindInvalidRequest, "the Content-Type must be application/json"))
		return
	}
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil || c.principal != guard.Principal(r.Context()) {
		refuse(w, "", mcp.Errorf(mcp.KindSessionNotFound, "no such session: its event stream has ended or never was"))
		return
	}
	c.newest.Store((&http.Request{Method: http.MethodPost, URL: r.URL, Header: r.Header, Host: r.Host, RemoteAddr: r.RemoteAddr, TLS: r.TLS}).
		WithContext(context.WithoutCancel(r.Context())))
	room := s.o.Memory.Hold("principal ", c.principal)
	defer room.Release() // of what the connection does not take
	body, err := guard.ReadBody(w, r, s.o.MaxBody, nil, &room)
	if err != nil {
		refuse(w, guard.RequestID(err), err)
		return
	}
	if id, err := jsonrpc.CheckText(body); err != nil {
		guard.WriteError(w, http.StatusBadRequest, id, mcp.ParseFailure(err))
		return
	}
	owed := false
	if !rawjson.IsArray(body) {
		m, err := jsonrpc.Parse(body)
		if err != nil {
			guard.WriteError(w, http.StatusBadRequest, m.ID, mcp.ParseFailure(err))
			return
		}
		owed = m.Kind() == jsonrpc.Request
	}
	if err := c.stream.receive(r.Context(), body, &room, owed); err != nil {
		refuse(w, "", err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// shutdownGrace is how long handlers may take to return, and answers to be written, after Shutdown
// stops waiting.
const shutdownGrace = 250 * time.Millisecond

// Shutdown ends the Server. It refuses new connections and requests at once. Requests in flight run
// until they finish or ctx ends; then their contexts end and they are answered with an error of
// mcp.KindShuttingDown. Shutdown closes the connections. When it returns nil, every goroutine of
// the Server has ended. It returns an error if handlers continue although their context has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.requests.Close()
	if s.requests.Drain(ctx.Done()) > 0 {
		s.stopNow(errShuttingDown())
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	s.requests.Drain(grace.Done())
	s.mu.Lock()
	streams := make([]*serverStream, 0, len(s.conns))
	for _, c := range s.conns {
		streams = append(streams, c.stream)
	}
	s.mu.Unlock()
	for _, st := range streams {
		st.drain(grace)
		_ = st.Close()
	}
	last, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if s.streams.Drain(last.Done()) > 0 {
		return mcp.Errorf(mcp.KindShuttingDown, "%d requests are still being handled although they were cancelled", s.requests.Len())
	}
	s.stopNow(errShuttingDown())
	return nil
}

// serverStream is an open GET as an mcp.Stream. Read returns posted messages, and Write sends an
// event.
type serverStream struct {
	in       chan posted
	closed   chan struct{}
	answered chan struct{} // capacity 1: a response has been written

	mu      sync.Mutex // guards below, and writing
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	over    bool
	buf     []byte

	count sync.Mutex // guards owed; taken without other locks
	owed  int        // requests without a response

	caller *identity.Identity // of the message that Read returned last; only the reader uses it
}

// posted is one message and its sender. The principal is the principal of the connection; groups
// and scopes may differ from POST to POST.
type posted struct {
	block  *memory.Block
	caller *identity.Identity
}

// Caller returns who sent the message that Read returned last.
func (st *serverStream) Caller() *identity.Identity { return st.caller }

// Read implements mcp.Stream.
func (st *serverStream) Read() ([]byte, error) {
	msg, block, err := st.ReadBlock()
	block.Release()
	return msg, err
}

// ReadBlock is Read with the Block that counts the message, for the call that it belongs to.
func (st *serverStream) ReadBlock() (msg []byte, block *memory.Block, err error) {
	select {
	case p := <-st.in:
		st.caller = p.caller
		msg, err = p.block.Open(context.Background()) // it is in memory
		return msg, p.block, err
	case <-st.closed:
		return nil, nil, io.EOF
	}
}

// Write implements mcp.Stream. It waits for a slow client for at most the write timeout.
func (st *serverStream) Write(msg []byte) error {
	_, err := st.WriteAll([][]byte{msg}, true)
	return err
}

// WriteAll sends several messages at once. It cannot know whether the client is slow, so it sends
// nothing if wait is false.
func (st *serverStream) WriteAll(msgs [][]byte, wait bool) (bool, error) {
	if !wait {
		return false, nil
	}
	err := st.writeAll(msgs)
	for _, msg := range msgs {
		if isResponse(msg) {
			st.owe(-1)
		}
	}
	return true, err
}

// writeAll writes messages as events: small ones at once, a large one without a copy.
func (st *serverStream) writeAll(msgs [][]byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.buf = st.buf[:0]
	for _, msg := range msgs {
		if len(msg) <= memory.Free {
			st.buf = streamable.AppendEvent(st.buf, streamable.Event{Name: "message", Data: msg})
			continue
		}
		before, after, _ := bytes.Cut(streamable.AppendEvent(nil, streamable.Event{Name: "message", Data: []byte("x")}), []byte("x"))
		st.buf = append(st.buf, before...)
		if err := st.writeLocked(st.buf); err != nil {
			return err
		}
		if err := st.writeLines(msg); err != nil {
			return err
		}
		st.buf = append(st.buf[:0], after...)
	}
	err := st.writeLocked(st.buf)
	if cap(st.buf) > 256<<10 {
		st.buf = nil
	}
	return err
}

// writeLines writes a message without its line breaks, which stand only between tokens of JSON.
func (st *serverStream) writeLines(msg []byte) error {
	for len(msg) > 0 {
		piece := msg
		if at := bytes.IndexAny(msg[:min(len(msg), memory.Free)], "\r\n"); at >= 0 {
			piece, msg = msg[:at], msg[at+1:]
		} else {
			piece, msg = msg[:min(len(msg), memory.Free)], msg[min(len(msg), memory.Free):]
		}
		if st.over {
			return io.ErrClosedPipe
		}
		_ = st.rc.SetWriteDeadline(time.Now().Add(st.timeout))
		if _, err := st.w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (st *serverStream) write(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.writeLocked(frame)
}

func (st *serverStream) writeLocked(frame []byte) error {
	if st.over {
		return io.ErrClosedPipe
	}
	_ = st.rc.SetWriteDeadline(time.Now().Add(st.timeout))
	if _, err := st.w.Write(frame); err != nil {
		return err
	}
	return st.rc.Flush()
}

// isResponse reads only the first members of a message.
func isResponse(msg []byte) (yes bool) {
	_ = rawjson.EachMember(msg, func(m rawjson.Member) bool {
		yes = bytes.Equal(m.Key, []byte("result")) || bytes.Equal(m.Key, []byte("error"))
		return !yes && !bytes.Equal(m.Key, []byte("method"))
	})
	return yes
}

// receive queues a posted message, with the bytes that room counts for it. It blocks while the queue is full.
func (st *serverStream) receive(ctx context.Context, msg []byte, room *memory.Hold, owed bool) error {
	if owed {
		st.owe(1)
	}
	block := memory.Held(msg, room)
	select {
	case st.in <- posted{block, identity.From(ctx)}:
		select {
		case <-st.closed: // the reader may have left before
			st.dropPosted()
		default:
		}
		return nil
	case <-st.closed:
		block.Release()
		return mcp.Errorf(mcp.KindSessionNotFound, "the session has just ended")
	case <-ctx.Done():
		block.Release()
		if owed {
			st.owe(-1)
		}
		return mcp.Errorf(mcp.KindOverloaded, "too many messages wait on this connection")
	}
}

// dropPosted returns the bytes of messages that are not read any more.
func (st *serverStream) dropPosted() {
	for {
		select {
		case p := <-st.in:
			p.block.Release()
		default:
			return
		}
	}
}

func (st *serverStream) owe(n int) {
	st.count.Lock()
	st.owed += n
	st.count.Unlock()
	if n < 0 {
		select {
		case st.answered <- struct{}{}:
		default:
		}
	}
}

// drain waits until every request has its response, or ctx ends. A cancelled request gets no
// response.
func (st *serverStream) drain(ctx context.Context) {
	for {
		st.count.Lock()
		owed := st.owed
		st.count.Unlock()
		if owed <= 0 {
			return
		}
		select {
		case <-st.answered:
		case <-ctx.Done():
			return
		}
	}
}

// Close implements mcp.Stream. It interrupts a write in progress.
func (st *serverStream) Close() error {
	st.count.Lock()
	select {
	case <-st.closed:
		st.count.Unlock()
		return nil
	default:
		close(st.closed)
	}
	st.dropPosted()
	st.count.Unlock()
	_ = st.rc.SetWriteDeadline(time.Now())
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	// The end of the response itself may still be written.
	_ = st.rc.SetWriteDeadline(time.Time{})
	return nil
}
