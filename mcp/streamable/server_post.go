package streamable

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// noticeTimeout bounds the handling of a notification, because its sender waits for the 202.
const noticeTimeout = 30 * time.Second

// maxPooled bounds the buffers of request bodies and responses that are reused. Larger ones are
// left to the garbage collector.
const maxPooled = 1 << 20

func (s *Server) getBuffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (s *Server) putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		s.buffers.Put(b)
	}
}

// accepts returns the forms of a response that the client accepts. Without an Accept header it is
// JSON. MCP clients that accept streams name text/event-stream. */*, which HTTP clients send by
// default, means JSON; wild says that the header had it.
func accepts(h http.Header) (json, sse, wild bool) {
	values := h["Accept"]
	if len(values) == 0 {
		return true, false, false
	}
	for _, v := range values {
		if v == acceptBoth {
			return true, true, false
		}
		for part := range strings.SplitSeq(v, ",") {
			kind, params, _ := strings.Cut(part, ";")
			if strings.ReplaceAll(params, " ", "") == "q=0" {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case ContentJSON, "application/*":
				json = true
			case ContentSSE, "text/*":
				sse = true
			case "*/*":
				json, wild = true, true
			}
		}
	}
	return json, sse, wild
}

// AcceptsBoth reports whether a request names both forms of a response, as the protocol requires.
func AcceptsBoth(h http.Header) bool {
	json, sse, _ := accepts(h)
	return json && sse
}

// post is a POST whose body has been read.
type post struct {
	s         *Server
	w         http.ResponseWriter
	r         *http.Request
	principal string
	session   string // header Mcp-Session-Id
	version   string // header MCP-Protocol-Version
	json, sse bool
	closing   bool
	room      *memory.Hold // of the body
}

func (s *Server) servePost(w http.ResponseWriter, r *http.Request, closing bool) {
	if t := r.Header.Get("Content-Type"); t != ContentJSON && mediaType(t) != ContentJSON {
		guard.WriteError(w, http.StatusUnsupportedMediaType, "", mcp.Errorf(mcp.KindInvalidRequest, "the Content-Type must be application/json"))
		return
	}
	p := post{s: s, w: w, r: r, closing: closing, principal: guard.Principal(r.Context()),
		session: r.Header.Get(HeaderSession), version: r.Header.Get(HeaderVersion)}
	if p.json, p.sse, _ = accepts(r.Header); !p.json && !p.sse {
		guard.WriteError(w, http.StatusNotAcceptable, "", mcp.Errorf(mcp.KindInvalidRequest, "the Accept header must allow application/json and text/event-stream"))
		return
	}
	buf := s.getBuffer()
	room := s.o.Memory.Hold("principal ", p.principal)
	defer room.Release()
	p.room = &room
	body, err := guard.ReadBody(w, r, s.o.MaxBody, *buf, &room)
	*buf = body
	// Handlers read the params, which are slices of the body, until they return.
	defer s.putBuffer(buf)
	if err != nil {
		refuse(w, guard.RequestID(err), err)
		return
	}
	if id, err := jsonrpc.CheckText(body); err != nil {
		p.refuseParse(id, err)
		return
	}
	if rawjson.IsArray(body) {
		p.serveBatch(body)
		return
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		p.refuseParse(m.ID, err)
		return
	}
	p.serve(&m)
}

func (p *post) refuseParse(id jsonrpc.ID, err error) {
	guard.WriteError(p.w, http.StatusBadRequest, id, mcp.ParseFailure(err))
}

// serve decides the era of one message: modern without a session id and with a version of
// 2026-07-28 or later in the header or the body.
func (p *post) serve(m *jsonrpc.Message) {
	r := mcp.Request{ID: m.ID, Method: m.Method, Params: m.Params}
	var meta mcp.Meta
	var name []byte
	if p.session == "" && m.Method != "" {
		var err error
		if meta, name, err = metaOf(&r); err != nil {
			refuse(p.w, m.ID, err)
			return
		}
	}
	if p.session == "" && (mcp.IsModern(p.version) || mcp.IsModern(meta.Version)) {
		p.serveModern(m, &r, meta, name)
		return
	}
	p.serveLegacy(m, &r, meta)
}

// metaOf reads the parts of params that the transport needs: _meta and the value that Mcp-Name
// repeats.
func metaOf(r *mcp.Request) (meta mcp.Meta, name []byte, err error) {
	if !rawjson.IsObject(r.Params) {
		return meta, nil, nil
	}
	p, key := r.Fields(), nameParam(r.Method)
	if err = p.Unique("_meta", key); err == nil {
		switch key {
		case "name":
			name = p.Name
		case "uri":
			name = p.URI
		case "taskId":
			err = rawjson.Scan(r.Params, rawjson.Key(key, &name))
		}
	}
	if err != nil {
		return meta, nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	meta, err = p.Meta()
	return meta, name, err
}

// removed reports whether 2026-07-28 removed a request from the protocol.
func removed(method string) bool {
	switch method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return true
	}
	return false
}

// serveModern serves a message of the era without sessions.
func (p *post) serveModern(m *jsonrpc.Message, r *mcp.Request, meta mcp.Meta, name []byte) {
	kind := m.Kind()
	var err error
	switch {
	case kind != jsonrpc.Request && kind != jsonrpc.Notification:
		err = mcp.Errorf(mcp.KindInvalidRequest, "protocol version %s has no requests from server to client, so no response is expected", p.version)
	case p.version != "" && !mcp.Supported(p.version) && meta.Version == "":
		err = mcp.UnsupportedVersion(p.version)
	case kind == jsonrpc.Request:
		err = mcp.CheckModern(meta, p.version)
		if err == nil && p.version == "" {
			err = mcp.Errorf(mcp.KindHeaderMismatch, "the header MCP-Protocol-Version is missing: every request of %s and later has it", mcp.V20260728)
		}
	}
	if err == nil {
		err = checkHeaders(p.r.Header, m, name)
	}
	if err == nil && kind == jsonrpc.Request && removed(m.Method) {
		err = mcp.MethodNotFound(m.Method)
	}
	if err == nil && p.closing && kind == jsonrpc.Request {
		err = p.s.errShuttingDown()
	}
	if err == nil && !p.sse && m.Method == "subscriptions/listen" {
		guard.WriteError(p.w, http.StatusNotAcceptable, m.ID, mcp.Errorf(mcp.KindInvalidRequest, "subscriptions/listen is answered with text/event-stream; the Accept header must allow it"))
		return
	}
	var sess *serverSession
	if err == nil {
		sess, err = p.s.newSession(principalSession, p.principal)
	}
	if err != nil {
		refuse(p.w, m.ID, err)
		return
	}
	defer sess.release()
	if kind == jsonrpc.Notification {
		if m.Method != "notifications/cancelled" { // HTTP cancels by closing the response
			p.notice(sess, m, p.version)
		}
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	p.exchange(sess, r, meta.Version).run()
}

// checkHeaders checks that the headers repeat the body (2026-07-28): a gateway on the way may have
// read only the headers.
func checkHeaders(h http.Header, m *jsonrpc.Message, name []byte) error {
	mismatch := func(format string, args ...any) error {
		return mcp.Errorf(mcp.KindHeaderMismatch, format, args...)
	}
	methods := h[HeaderMethod]
	switch {
	case len(methods) == 0:
		return mismatch("the header Mcp-Method is missing: it repeats the method %q", m.Method)
	case len(methods) > 1:
		return mismatch("the header Mcp-Method stands twice")
	case methods[0] != m.Method:
		return mismatch("header Mcp-Method is %q but the method is %q", clip(methods[0]), m.Method)
	}
	key := nameParam(m.Method)
	if key == "" {
		return nil
	}
	names := h[HeaderName]
	switch {
	case len(names) > 1:
		return mismatch("the header Mcp-Name stands twice")
	case len(names) == 0 && name == nil:
		return nil // the handler reports that params.name is missing
	case len(names) == 0:
		return mismatch("the header Mcp-Name is missing: it repeats params.%s", key)
	}
	value, err := decodeHeaderValue(strings.Trim(names[0], " \t"))
	if err != nil {
		return mismatch("header Mcp-Name: %v", err)
	}
	if !textEquals(name, value) {
		return mismatch("header Mcp-Name is %q but params.%s is %s", clip(value), key, clip(string(name)))
	}
	return nil
}

// textEquals reports whether raw is the JSON string s.
func textEquals(raw []byte, s string) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1:len(raw)-1]) == s
	}
	text, err := rawjson.String(raw)
	return err == nil && text == s
}

// clip bounds a client's text before it is put into a message.
func clip(s string) string { return text.Fit(s, 201) }

// legacySession finds or makes the session of a POST of the legacy era.
func (p *post) legacySession(initialize bool) (*serverSession, error) {
	if p.session != "" {
		return p.s.sessionOf(p.r, p.session)
	}
	if p.version != "" && !mcp.Supported(p.version) {
		return nil, mcp.UnsupportedVersion(p.version)
	}
	kind := legacySession
	if !initialize {
		if !p.s.o.Sessionless {
			return nil, mcp.Errorf(mcp.KindInvalidRequest, "the header Mcp-Session-Id is missing; send initialize first, or put params._meta[%q] on every request", mcp.MetaVersion)
		}
		kind = requestSession
	}
	sess, err := p.s.newSession(kind, p.principal)
	if err != nil {
		return nil, err
	}
	if kind == requestSession {
		// 2025-06-18 and later name their version, so this one is older.
		version := mcp.V20250326
		if p.version != "" {
			version = p.version
		}
		sess.mcp.SetVersion(version)
	}
	return sess, nil
}

// serveLegacy serves a message of the era with sessions.
func (p *post) serveLegacy(m *jsonrpc.Message, r *mcp.Request, meta mcp.Meta) {
	kind := m.Kind()
	initialize := kind == jsonrpc.Request && m.Method == "initialize"
	var err error
	switch {
	case p.closing && kind == jsonrpc.Request:
		err = p.s.errShuttingDown()
	case p.session == "" && meta.Version != "" && !mcp.Supported(meta.Version):
		err = mcp.UnsupportedVersion(meta.Version)
	}
	var sess *serverSession
	if err == nil {
		sess, err = p.legacySession(initialize)
	}
	if err != nil {
		refuse(p.w, m.ID, err)
		return
	}
	defer sess.release()
	switch kind {
	case jsonrpc.Request:
		x := p.exchange(sess, r, sess.mcp.Version())
		x.hello = initialize && p.session == ""
		x.run()
	case jsonrpc.Notification:
		p.notice(sess, m, sess.mcp.Version())
		p.w.WriteHeader(http.StatusAccepted)
	default:
		sess.answered(m)
		p.w.WriteHeader(http.StatusAccepted)
	}
}

// exchange prepares the answer to one request.
func (p *post) exchange(sess *serverSession, r *mcp.Request, version string) *exchange {
	x := &exchange{srv: p.s, sess: sess, w: p.w, r: p.r, version: version, json: p.json, sse: p.sse}
	x.calls = x.first[:]
	x.calls[0].req = *r
	x.calls[0].start(x)
	x.calls[0].scope.Within(p.room)
	return x
}

// notice handles a notification before confirming it, so that it has taken effect when the client
// sends its next message.
func (p *post) notice(sess *serverSession, m *jsonrpc.Message, version string) {
	if m.Method == "notifications/cancelled" {
		sess.cancelled(m.Params)
		return
	}
	ctx, cancel := context.WithTimeout(&callContext{Context: sess.ctx, r: p.r}, noticeTimeout)
	defer cancel()
	r := &mcp.Request{Method: m.Method, Params: m.Params, Version: version, Session: sess.mcp, Peer: sess.mcp.Peer()}
	if m.Method == "notifications/progress" && sess.progressed(ctx, r) {
		return
	}
	if _, err := p.s.handle(ctx, r); err != nil {
		p.s.log.Debug("notification not handled", "method", m.Method, "err", err)
	}
}

// serveBatch serves several messages at once. Only 2025-03-26 has batches.
func (p *post) serveBatch(body []byte) {
	if p.session == "" && mcp.IsModern(p.version) || p.version != "" && p.version != mcp.V20250326 {
		p.refuseBatch()
		return
	}
	raws, _, err := jsonrpc.Split(body)
	if err != nil {
		p.refuseParse("", err)
		return
	}
	msgs := make([]jsonrpc.Message, len(raws))
	requests := 0
	var refused []message // answers to invalid messages
	for i, raw := range raws {
		if msgs[i], err = jsonrpc.Parse(raw); err != nil {
			refused = append(refused, message{data: jsonrpc.AppendError(nil, msgs[i].ID, mcp.ParseFailure(err))})
			msgs[i] = jsonrpc.Message{}
			continue
		}
		if msgs[i].Method == "initialize" {
			refuse(p.w, msgs[i].ID, mcp.Errorf(mcp.KindInvalidRequest, "initialize must not be part of a batch"))
			return
		}
		if msgs[i].Kind() == jsonrpc.Request {
			requests++
		}
	}
	if p.closing && requests > 0 {
		refuse(p.w, "", p.s.errShuttingDown())
		return
	}
	sess, err := p.legacySession(false)
	if err != nil {
		refuse(p.w, "", err)
		return
	}
	defer sess.release()
	version := sess.mcp.Version()
	if version != "" && version != mcp.V20250326 {
		p.refuseBatch()
		return
	}
	x := &exchange{srv: p.s, sess: sess, w: p.w, r: p.r, version: version, json: p.json, sse: p.sse, batch: true, answers: refused}
	x.calls = make([]serverCall, 0, requests)
	for i := range msgs {
		m := &msgs[i]
		switch m.Kind() {
		case jsonrpc.Request:
			x.calls = append(x.calls, serverCall{req: mcp.Request{ID: m.ID, Method: m.Method, Params: m.Params}})
		case jsonrpc.Notification:
			p.notice(sess, m, version)
		default:
			if m.ID != "" || m.Err != nil {
				sess.answered(m)
			}
		}
	}
	switch {
	case requests > 0:
	case refused != nil:
		x.writeAnswers(http.StatusBadRequest)
		return
	default:
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	for i := range x.calls {
		x.calls[i].start(x)
	}
	x.run()
}

func (p *post) refuseBatch() {
	refuse(p.w, "", mcp.Errorf(mcp.KindInvalidRequest, "batches exist in protocol version %s only; send one message per request", mcp.V20250326))
}
