package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// exchange is one POST with requests and the response to it:
//
//	          result, nothing sent before ──────────────────────────▶ JSON
//	request ─┤
//	          first notification, or silence for UpgradeAfter ──▶ SSE: …, result
//
// The handler runs on the goroutine of the HTTP request. Until the response becomes a stream, any
// goroutine that holds mu may write it. Afterwards only the goroutine that pumps the stream may.
type exchange struct {
	srv     *Server
	sess    *serverSession
	w       http.ResponseWriter
	r       *http.Request
	version string // of the messages; "" during the handshake
	json    bool   // the client accepts JSON
	sse     bool   // the client accepts a stream
	batch   bool
	hello   bool         // the response has the session's id in a header
	session string       // the id of that header, once the handshake is over
	calls   []serverCall // allocated once, so that pointers into it stay valid
	first   [1]serverCall

	mu      sync.Mutex // guards below
	left    int        // calls without an answer
	answers []message  // of a batch
	written bool       // the response is JSON and has been written
	stream  *serverStream
	pumped  chan struct{} // closed when the stream's first connection has ended
	watch   func() bool   // stops watching for a client that goes away
	lost    *time.Timer   // cancels calls whose client is gone
}

// serverCall is one request of an exchange. It is the Peer of its handler.
type serverCall struct {
	x      *exchange
	req    mcp.Request
	ctx    callContext
	cancel context.CancelCauseFunc
	scope  memory.Scope // for the memory of the result; ends when the result is written

	refused bool // the handler was not called
	over    bool // answered; guarded by x.mu
}

// callContext ends with the call and has the values of its HTTP request.
type callContext struct {
	context.Context
	r     *http.Request
	scope *memory.Scope // nil if there is no result
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (headerKey{}) {
		return c.r.Header
	}
	if key == memory.Key {
		return c.scope
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.r.Context().Value(key)
}

// start prepares the call. In the modern era it ends when the client closes the response, in the
// legacy era not before its session does.
func (c *serverCall) start(x *exchange) {
	parent := x.sess.ctx
	if x.sess.kind == principalSession {
		parent = x.r.Context()
	}
	c.x = x
	c.ctx.Context, c.cancel = context.WithCancelCause(parent)
	c.ctx.r, c.ctx.scope = x.r, &c.scope
	c.req.Version, c.req.Session, c.req.Peer = x.version, x.sess.mcp, c
}

// run serves the exchange. It returns when everything is written or the client is gone.
func (x *exchange) run() {
	x.left = len(x.calls)
	var silence *time.Timer
	if !x.json {
		x.mu.Lock()
		x.upgrade()
		x.mu.Unlock()
	} else {
		silence = time.AfterFunc(x.srv.o.UpgradeAfter, x.silent)
	}
	if len(x.calls) == 1 {
		x.calls[0].serve()
	} else {
		var all sync.WaitGroup
		for i := range x.calls {
			all.Go(x.calls[i].serve)
		}
		all.Wait()
	}
	if silence != nil {
		silence.Stop()
	}
	x.mu.Lock()
	st, pumped, watch, lost := x.stream, x.pumped, x.watch, x.lost
	x.watch, x.written = nil, true
	x.mu.Unlock()
	if watch != nil {
		watch()
	}
	if lost != nil {
		lost.Stop()
	}
	if st != nil {
		st.answered()
		<-pumped
	}
}

// serve calls the handler and answers the call.
func (c *serverCall) serve() {
	x := c.x
	if err := x.sess.begin(c); err != nil {
		c.cancel(err)
		if x.hello {
			x.handshaken(nil, err)
		}
		c.refused = true
		x.answer(c, nil, err)
		return
	}
	defer c.scope.End()
	result, err := x.srv.handle(&c.ctx, &c.req)
	if err != nil {
		// The cause of the context's end says more than its error.
		var reason *mcp.Error
		if errors.Is(err, context.Canceled) && errors.As(context.Cause(c.ctx.Context), &reason) {
			err = reason
		}
	}
	if x.hello {
		x.handshaken(result, err)
	}
	// Free the id before the response is written, so that the client may reuse it as soon as it has
	// the response.
	x.sess.done(c)
	c.cancel(context.Canceled)
	x.answer(c, result, err)
}

// handle calls the handler. A panic becomes an internal error of this message only.
func (s *Server) handle(ctx context.Context, r *mcp.Request) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("the handler panicked", "method", r.Method, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, mcp.Errorf(mcp.KindInternal, "internal error")
		}
	}()
	return s.o.Handler.Serve(ctx, r)
}

// handshaken ends the session if its handshake failed.
func (x *exchange) handshaken(result json.RawMessage, err error) {
	if err != nil {
		x.mu.Lock()
		x.hello = false
		x.mu.Unlock()
		x.sess.close(err)
		return
	}
	if x.sess.mcp.Version() == "" {
		x.sess.mcp.SetVersion(rawjson.Text(rawjson.Get(result, "protocolVersion")))
	}
	id := x.srv.name(x.sess, &x.calls[0].req)
	x.mu.Lock()
	x.session = id
	x.mu.Unlock()
}

// answer sends the response of a call, once. Shutdown answers calls whose handler does not return.
func (x *exchange) answer(c *serverCall, result json.RawMessage, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	x.left--
	var wire *jsonrpc.Error
	if err != nil {
		if k, ours := mcp.KindOf(err); ours && k == mcp.KindInternal {
			x.srv.log.Error("request failed", "method", c.req.Method, "err", err)
		}
		wire = mcp.WireError(err, x.version)
	}
	if x.stream != nil {
		x.stream.push(newResponse(&c.ctx, x.version, c.req.ID, result, wire))
		if x.left == 0 {
			x.stream.end()
		}
		return
	}
	if x.batch {
		x.answers = append(x.answers, newResponse(&c.ctx, x.version, c.req.ID, result, wire))
		if x.left == 0 {
			x.writeAnswers(http.StatusOK)
		}
		return
	}
	status := http.StatusOK
	if wire != nil {
		status = x.status(c, wire, err)
	}
	buf := x.srv.getBuffer()
	defer x.srv.putBuffer(buf)
	if wire != nil || len(result) <= maxPooled {
		*buf = appendResponse((*buf)[:0], c.req.ID, result, wire)
		x.writeJSON(status, *buf)
		return
	}
	// Do not copy a large result again.
	*buf = append(append(append((*buf)[:0], `{"jsonrpc":"2.0","id":`...), c.req.ID...), `,"result":`...)
	x.writeJSON(status, *buf, result, []byte{'}'})
}

// writeAnswers writes the answers of a batch. The caller holds mu.
func (x *exchange) writeAnswers(status int) {
	parts := make([][]byte, 0, 2*len(x.answers)+1)
	between := []byte{'['}
	for _, m := range x.answers {
		parts = append(parts, between, m.data)
		between = []byte{','}
	}
	x.writeJSON(status, append(parts, []byte{']'})...)
	for _, m := range x.answers {
		m.release()
	}
	x.answers = nil
}

func appendResponse(dst []byte, id jsonrpc.ID, result []byte, err *jsonrpc.Error) []byte {
	if err != nil {
		return jsonrpc.AppendError(dst, id, err)
	}
	return jsonrpc.AppendResult(dst, id, result)
}

// status returns the HTTP status of an error response. In the legacy era every answer of a handler
// is a success of HTTP. In the modern era only the errors that the specification names have another
// status.
func (x *exchange) status(c *serverCall, wire *jsonrpc.Error, err error) int {
	if c.refused {
		k, _ := mcp.KindOf(err)
		return k.Info().HTTP
	}
	if guard.SetChallenge(x.r.Context(), x.w.Header(), err) {
		// Clients of every era read the header to ask their issuer for more scopes.
		return http.StatusForbidden
	}
	if x.srv.o.ErrorStatus != nil {
		if status := x.srv.o.ErrorStatus(err, x.w.Header()); status != 0 {
			return status
		}
	}
	if !mcp.IsModern(x.version) {
		return http.StatusOK
	}
	switch wire.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.KindHeaderMismatch.Info().JSONRPC, mcp.KindMissingCapability.Info().JSONRPC, mcp.KindUnsupportedVersion.Info().JSONRPC:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// Header values that are the same in every response. They must not be changed.
var (
	valueJSON    = []string{ContentJSON}
	valueSSE     = []string{ContentSSE}
	valueNoCache = []string{"no-cache, no-transform"}
	valueNo      = []string{"no"}
)

// largeResponse is the size from which a response gets a write deadline. Smaller ones fit the
// socket's buffer.
const largeResponse = 64 << 10

// writeJSON writes the whole response, which is given in parts. The caller holds mu.
func (x *exchange) writeJSON(status int, parts ...[]byte) {
	if x.written {
		return
	}
	x.written = true
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	h := x.w.Header()
	h["Content-Type"] = valueJSON
	if x.hello && x.session != "" { // Shutdown may answer before the handshake is over
		h[HeaderSession] = []string{x.session}
	}
	if size > 2048 { // net/http sets the length of smaller ones itself
		h["Content-Length"] = []string{strconv.Itoa(size)}
	}
	if status != http.StatusOK {
		x.w.WriteHeader(status)
	}
	if size < largeResponse {
		for _, p := range parts {
			_, _ = x.w.Write(p) // the client may be gone
		}
		return
	}
	rc := http.NewResponseController(x.w)
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	for _, p := range parts {
		if writeInTime(x.w, rc, p, x.srv.o.WriteTimeout) != nil {
			return
		}
	}
}

// maxWrite is the number of bytes that a client must read within one write timeout.
const maxWrite = 1 << 20

// writeInTime writes p, and fails if the client reads too slowly.
func writeInTime(w io.Writer, rc *http.ResponseController, p []byte, timeout time.Duration) error {
	for {
		_ = rc.SetWriteDeadline(time.Now().Add(timeout))
		n := min(len(p), maxWrite)
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
}

// hurry sets a deadline, so that writing the response cannot hang.
func (x *exchange) hurry() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil && !x.written {
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(shutdownGrace))
	}
}

// silent runs when there has been no answer for a while. A stream then shows proxies and the client
// that the call is alive, and can be resumed. If the client does not accept a stream, silent starts
// to watch whether the client still waits.
func (x *exchange) silent() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.written || x.left == 0 || x.stream != nil {
		return
	}
	if x.sse {
		x.upgrade()
		return
	}
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	if x.sess.kind != principalSession {
		x.watch = context.AfterFunc(x.r.Context(), x.gone)
	}
}

// gone runs when a client without a stream has gone away.
func (x *exchange) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.watch == nil {
		return
	}
	window := x.srv.o.ResumeWindow
	if x.sess.kind == requestSession {
		window = 0
	}
	x.lost = time.AfterFunc(window, func() { x.abandon(errGone) })
}

// abandon cancels the calls without an answer.
func (x *exchange) abandon(reason error) {
	for i := range x.calls {
		x.calls[i].cancel(reason)
	}
}

// open returns the stream for messages that a call sends before its response, or nil if the
// response cannot be a stream.
func (x *exchange) open(c *serverCall) (*serverStream, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c.over {
		return nil, false
	}
	if x.stream == nil && x.sse && !x.written {
		x.upgrade()
	}
	return x.stream, true
}

// upgrade makes the response a stream. The caller holds mu.
func (x *exchange) upgrade() {
	var request jsonrpc.ID
	if !x.batch {
		request = x.calls[0].req.ID
	}
	x.stream = x.sess.openStream(request, x.abandon)
	for _, m := range x.answers { // finished ones of a batch go first
		x.stream.push(m)
	}
	x.answers = nil
	x.pumped = make(chan struct{})
	conn, from := x.stream.attach(-1)
	go x.pump(conn, from)
}

// pump is the goroutine that writes the stream to the response of the POST.
// run waits for it.
func (x *exchange) pump(conn *serverConn, from int64) {
	defer close(x.pumped)
	x.mu.Lock()
	hello := x.hello
	x.mu.Unlock()
	if hello { // without mu, which is taken after the lock of the Server
		x.w.Header()[HeaderSession] = []string{x.srv.name(x.sess, &x.calls[0].req)}
	}
	out := x.srv.openEvents(x.w, x.stream, x.sess.kind == legacySession, x.version, from)
	out.pump(x.r.Context(), conn)
	x.sess.connectionLost(x.stream, conn)
}

// Call implements mcp.Peer: a request to the client, on the call's own stream.
func (c *serverCall) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if c.x.sess.kind != legacySession {
		return mcp.NoPeer.Call(ctx, method, params, back)
	}
	st, ok := c.x.open(c)
	switch {
	case !ok:
		return nil, mcp.Errorf(mcp.KindNoBackChannel, "%s comes too late: its call has been answered", method)
	case st == nil:
		return nil, mcp.Errorf(mcp.KindNoBackChannel, "%s cannot reach the client: it accepts no text/event-stream in answer to its call", method)
	}
	return c.x.sess.ask(ctx, st, method, params, back)
}

// Notify implements mcp.Peer. It sends on the call's own stream or, if the client accepts none
// there, on the stream that the client has opened with GET.
func (c *serverCall) Notify(ctx context.Context, method string, params json.RawMessage) error {
	st, ok := c.x.open(c)
	if !ok {
		return nil
	}
	if st == nil {
		st = c.x.sess.own
		if st == nil || !st.attached(0) {
			return nil
		}
	}
	m, err := newNotification(ctx, method, params)
	if err == nil {
		st.notify(ctx, kindOfNotice(method), m)
	}
	return err
}
