package fakemcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
)

// buffer holds a request's and a response's bytes, to be used again for another.
type buffer struct{ in, out []byte }

// ListenAndServe serves HTTP on a TCP address until ctx ends, which gives nil and ends the
// calls in flight on every transport. ready, if not nil, is called once with the address.
func (s *Server) ListenAndServe(ctx context.Context, address string, ready func(net.Addr)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("fakemcp: %w", err)
	}
	if ready != nil {
		ready(listener.Addr())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("fakemcp: %w", err)
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	s.stop(errStopped) // calls and streams end, and with them their requests
	cancel()
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if server.Shutdown(limited) != nil {
		_ = server.Close()
	}
	<-ended
	return nil
}

// ServeHTTP serves streamable HTTP at /mcp and HTTP+SSE at /sse.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/sse" && r.Method == http.MethodGet:
		s.serveSSE(w, r)
	case r.URL.Path == "/messages" && r.Method == http.MethodPost:
		s.postSSE(w, r)
	case r.URL.Path != "/mcp":
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodGet && s.hasSessions(r):
		s.get(w, r)
	case r.Method == http.MethodDelete && s.hasSessions(r):
		s.forget(r.Header.Get(sessionHeader), "session deleted ")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// hasSessions reports whether GET and DELETE make sense: there are sessions, and the client is
// not a modern one.
func (s *Server) hasSessions(r *http.Request) bool {
	return s.speaksLegacy() && !s.cfg.NoSessions && r.Header.Get(versionHeader) != Modern
}

// post serves one message.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	buf, ok := s.buffers.Get().(*buffer)
	if !ok {
		buf = new(buffer)
	}
	defer func() {
		if cap(buf.in) <= 1<<20 && cap(buf.out) <= 1<<20 {
			s.buffers.Put(buf)
		}
	}()
	body, err := readAll(r, buf.in[:0])
	buf.in = body
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.messages.Add(1)
	m, ok := s.read(body)
	if !ok || m.method == nil && m.id == nil {
		writeError(w, http.StatusBadRequest, nil, &rpcError{code: codeParse, message: "not a message"})
		return
	}
	if s.speaks(Modern) && (m.modern() || r.Header.Get(versionHeader) == Modern) {
		if !m.request() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if fault := s.checkHeaders(r.Header, &m); fault != nil {
			writeError(w, http.StatusBadRequest, m.id, fault)
			return
		}
		s.respond(w, r, &m, s.everybody, buf)
		return
	}
	client, status, fault := s.session(w, r, &m)
	switch {
	case fault != nil:
		writeError(w, status, m.id, fault)
	case m.response():
		m, _ = s.read(bytes.Clone(body)) // it lives on after this request
		client.answer(m)
		w.WriteHeader(http.StatusAccepted)
	case m.notification():
		if string(m.method) == "notifications/cancelled" {
			client.cancel(m.requestID)
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		s.respond(w, r, &m, client, buf)
	}
}

func readAll(r *http.Request, dst []byte) ([]byte, error) {
	if r.ContentLength > maxMessage {
		return dst, errors.New("message too large")
	}
	if n := int(r.ContentLength); n >= 0 {
		if cap(dst) < n {
			dst = make([]byte, 0, n)
		}
		_, err := io.ReadFull(r.Body, dst[:n])
		return dst[:n], err
	}
	b := bytes.NewBuffer(dst)
	if n, err := b.ReadFrom(io.LimitReader(r.Body, maxMessage+1)); err != nil || n > maxMessage {
		return b.Bytes(), errors.Join(err, errors.New("cannot read the message"))
	}
	return b.Bytes(), nil
}

// session finds the client of a legacy request, or makes one for an initialize.
func (s *Server) session(w http.ResponseWriter, r *http.Request, m *message) (c *client, status int, fault *rpcError) {
	if s.cfg.NoSessions {
		return s.everybody, 0, nil
	}
	id := r.Header.Get(sessionHeader)
	if string(m.method) == "initialize" {
		id = s.newID("session-")
		c = newClient()
		s.mu.Lock()
		full := len(s.sessions) >= maxSessions
		if !full {
			s.sessions[id] = c
		}
		s.mu.Unlock()
		if full {
			return nil, http.StatusServiceUnavailable, &rpcError{code: codeInternal, message: "too many sessions"}
		}
		s.record("session " + id)
		w.Header().Set(sessionHeader, id)
		return c, 0, nil
	}
	if id == "" {
		return nil, http.StatusBadRequest, &rpcError{code: codeInvalidRequest, message: "no " + sessionHeader + " header"}
	}
	if c = s.find(id); c != nil && string(m.method) == "tools/call" && s.cfg.LoseSession > 0 && c.calls.Add(1) > int64(s.cfg.LoseSession) {
		s.forget(id, "session lost ")
		c = nil
	}
	if c == nil {
		return nil, http.StatusNotFound, &rpcError{code: codeSessionNotFound, message: "session not found"}
	}
	return c, 0, nil
}

func (s *Server) find(id string) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *Server) forget(id, event string) {
	s.mu.Lock()
	c, ok := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if ok {
		close(c.lost)
		c.stop()
		s.record(event + id)
	}
}

// checkHeaders compares a modern request's headers with its body.
func (s *Server) checkHeaders(h http.Header, m *message) *rpcError {
	mismatch := func(name string, want []byte) *rpcError {
		if got := decodeHeader(h.Get(name)); got != string(want) {
			return &rpcError{code: codeHeaderMismatch, message: fmt.Sprintf("header mismatch: %s is %q, the body says %q", name, got, want)}
		}
		return nil
	}
	if m.version == nil {
		return &rpcError{code: codeInvalidParams, message: "_meta has no io.modelcontextprotocol/protocolVersion"}
	}
	if fault := mismatch(versionHeader, m.version); fault != nil {
		return fault
	}
	if fault := mismatch("Mcp-Method", m.method); fault != nil {
		return fault
	}
	if string(m.method) != "tools/call" {
		return nil
	}
	if fault := mismatch("Mcp-Name", m.name); fault != nil {
		return fault
	}
	if string(m.name) == "region" {
		return mismatch("Mcp-Param-Region", unquote(member(m.args, "region")))
	}
	return nil
}

// decodeHeader undoes the encoding of a value that is not safe in a header.
func decodeHeader(value string) string {
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		if inner, ok = strings.CutSuffix(inner, "?="); ok {
			if text, err := base64.StdEncoding.DecodeString(inner); err == nil {
				return string(text)
			}
		}
	}
	return value
}

// respond serves a request and writes its answer as JSON or, where messages may come ahead
// of it, as an event stream.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, m *message, c *client, buf *buffer) {
	request := &call{
		message: m, server: s, client: c, gone: r.Context().Done(),
		deaf: true, send: func(...[]byte) error { return nil },
	}
	ctx := s.ctx
	release := func() {} // the id, before the answer is out: who has read it may use it again
	if s.waits(m) {
		if !m.modern() { // ids of modern clients are their own and may well be the same
			var done func()
			var fault *rpcError
			if ctx, done, fault = c.begin(ctx, m.id); fault != nil {
				writeError(w, http.StatusBadRequest, m.id, fault)
				return
			}
			release = sync.OnceFunc(done)
			defer release()
		}
	}
	if !s.streams(m) || !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		response, fault := s.serve(ctx, request, buf.out[:0])
		release()
		buf.out = response
		switch {
		case len(response) == 0:
			w.WriteHeader(http.StatusNoContent)
		case fault != nil && m.modern():
			writeJSON(w, fault.status(), response)
		default:
			writeJSON(w, http.StatusOK, response)
		}
		return
	}
	out := newEvents(w)
	request.deaf, request.send = false, out.send
	response, _ := s.serve(ctx, request, buf.out[:0])
	release()
	buf.out = response
	if len(response) > 0 {
		// A client that is gone needs no answer.
		_ = out.send(response)
	}
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	// A client that is gone needs no answer.
	_, _ = w.Write(body)
}

func writeError(w http.ResponseWriter, status int, id []byte, fault *rpcError) {
	writeJSON(w, status, appendError(nil, id, fault))
}

// events writes an event stream, one message an event.
type events struct {
	mu  sync.Mutex // guards below
	w   http.ResponseWriter
	buf []byte
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	e := &events{w: w}
	// Bytes that cannot be flushed now are written with the first event.
	_ = http.NewResponseController(w).Flush()
	return e
}

func (e *events) send(msgs ...[]byte) error { return e.event("message", msgs...) }

// event writes messages as events with a name.
func (e *events) event(name string, msgs ...[]byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf = e.buf[:0]
	for _, msg := range msgs {
		e.buf = append(append(e.buf, "event: "...), name...)
		e.buf = append(append(e.buf, "\ndata: "...), msg...)
		if string(msg) != halfMessage {
			e.buf = append(e.buf, "\n\n"...)
		}
	}
	if _, err := e.w.Write(e.buf); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

// get holds the stream of a session open and sends messages that belong to no call.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	c := s.find(r.Header.Get(sessionHeader))
	if c == nil {
		writeError(w, http.StatusNotFound, nil, &rpcError{code: codeSessionNotFound, message: "session not found"})
		return
	}
	if !c.attached.CompareAndSwap(false, true) {
		http.Error(w, "the session has a stream already", http.StatusConflict)
		return
	}
	defer c.attached.Store(false)
	// Changes are announced once the client knows that it listens.
	defer s.subscribe(&subscription{send: func(msg []byte) {
		select {
		case c.push <- msg:
		default: // a slow reader loses it
		}
	}})()
	out := newEvents(w)
	for {
		select {
		case msg := <-c.push:
			if out.send(msg) != nil {
				return
			}
		case <-c.lost:
			return
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}
