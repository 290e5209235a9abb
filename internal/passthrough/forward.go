package passthrough

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/limit/inflight"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/hop"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const (
	// maxRedirects bounds the redirects followed within an upstream's origin.
	maxRedirects = 4
	// cancelTimeout bounds how long an upstream may take to accept a cancellation.
	cancelTimeout = 5 * time.Second
	// shutdownGrace is how long cancelled requests may take to end.
	shutdownGrace = 250 * time.Millisecond
)

// forwarder sends HTTP requests on to HTTP upstreams of the same era. It reads the envelope of a
// message and the headers of a response.
type forwarder struct {
	o         *Options
	transport http.RoundTripper
	pool      *hop.Transport // transport, if the forwarder made it
	sessions  *bindings

	background sync.WaitGroup // cancellations being sent; Add under mu
	ctx        context.Context
	stop       context.CancelFunc // ends ctx and thereby background

	requests inflight.Group // closed by shutdown

	mu       sync.Mutex // guards below
	inFlight map[*exchange]struct{}
	ids      map[callKey]chan struct{} // of requests in flight; closed when the request has ended
}

// callKey is a request in flight in a session of an upstream. Without a session, or in a session
// that the upstream assigned to several clients, equal ids may belong to different clients.
type callKey struct {
	upstream, session string
	id                jsonrpc.ID
}

func newForwarder(o *Options) *forwarder {
	fw := &forwarder{o: o, transport: o.Transport, inFlight: map[*exchange]struct{}{}, ids: map[callKey]chan struct{}{}}
	fw.sessions = newBindings(o.MaxSessions, o.OnSession)
	fw.ctx, fw.stop = context.WithCancel(context.Background())
	if fw.transport == nil {
		fw.pool = hop.New(&http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
			WriteBufferSize:     16 << 10,
			ReadBufferSize:      16 << 10,
		})
		fw.transport = fw.pool
	}
	return fw
}

// exchange is one request to an upstream and its response.
type exchange struct {
	fw      *forwarder
	f       *face
	w       http.ResponseWriter
	r       *http.Request
	t       Target
	e       envelope
	session string  // the upstream's own id of the session, "" without one
	call    callKey // zero if duplicate ids are permitted
	b       *body   // nil if the request has none
	limit   time.Duration
	endless bool              // a stream or a subscription, which does not end by itself
	peer    http.RoundTripper // of an upstream that has registered itself, or nil
	trace   trace.Forwarded   // zero for a stream, a notification, a response and a batch
	edit    trace.Edit        // of b, which puts the context of the trace into it
	handed  *handed           // records of the requests in b

	began time.Time // if there is an Observer
	err   error     // why the agent did not get the upstream's answer whole; nil if it did
	again bool      // nothing was written: the caller retries
	// agentGone says that the response could not be written to the agent.
	agentGone bool

	ctx    context.Context // of the request to the upstream
	cancel context.CancelCauseFunc
}

// Reasons to give up a request to an upstream.
var (
	errTimeout = errors.New("the call took too long")
	errStopped = errors.New("weir is shutting down")
)

// serve forwards one request. b is nil for GET and DELETE. It always writes a response, with one
// exception: if the caller retries and the connection is refused, it writes nothing and returns the
// error.
func (fw *forwarder) serve(w http.ResponseWriter, r *http.Request, f *face, t Target, e envelope, b *body, records *handed, again bool) (lost error) {
	session, lasts := f.ownSession(r, &t)
	key := bindingKey{f.name, guard.Principal(r.Context()), session}
	shared := true
	if session != "" {
		owned, several := fw.sessions.owns(key)
		shared = several || !owned // a Router that has just started does not know
		if !owned && !lasts {
			records.err = mcp.Errorf(mcp.KindSessionNotFound, "no such session: it ended or never was; send initialize to start a new one")
			writeError(w, e.id, records.err)
			return nil
		}
	}
	x := &exchange{fw: fw, f: f, w: w, r: r, t: t, e: e, b: b, handed: records, session: session, peer: fw.o.peer(f.name)}
	if !shared && e.id != "" {
		x.call = callKey{f.name, session, e.id}
	}
	x.endless = r.Method == http.MethodGet || e.method == "subscriptions/listen"
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	defer x.cancel(nil)
	if err := fw.enter(x); err != nil {
		records.err = err
		writeError(w, e.id, err)
		return nil
	}
	defer fw.leave(x)
	x.observe()
	defer x.observeEnd()
	defer x.follow()()
	defer x.recordEnd()
	if err := x.record(); err != nil {
		x.err = err
		e.writeError(w, err)
		return nil
	}
	if !x.endless && t.Timeout > 0 {
		x.limit = t.Timeout
		timer := time.AfterFunc(t.Timeout, func() { x.cancel(errTimeout) })
		defer timer.Stop()
	}
	resp, err := x.roundTrip()
	if err != nil {
		if again && x.ctx.Err() == nil && errors.Is(err, syscall.ECONNREFUSED) {
			x.again, x.err = true, transportFailure(x.f.name, err)
			return err
		}
		x.fail(err)
		return nil
	}
	defer resp.Body.Close()
	if err := x.checkEncoding(resp); err != nil {
		x.refuse(resp, err)
		return nil
	}
	if x.peer != nil {
		if err := x.vet(resp); err != nil {
			x.refuseOrFail(resp, err)
			return nil
		}
	}
	x.learn(resp, key)
	if err := x.refusal(resp); err != nil {
		x.refuse(resp, err)
		return nil
	}
	x.noteStatus(resp)
	x.respond(resp)
	return nil
}

// roundTrip sends the request and follows redirects within the upstream's origin: the configured
// headers may contain a key for this host only.
func (x *exchange) roundTrip() (*http.Response, error) {
	to := x.t.URL
	for hops := 0; ; hops++ {
		h, err := x.header(x.e.tool)
		if err != nil {
			return nil, err
		}
		req := (&http.Request{
			Method: x.r.Method, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		}).WithContext(x.ctx)
		if b := x.b; b != nil {
			edit := x.edit
			req.Body, req.ContentLength = b.reader(edit), int64(len(b.buf)+edit.Grows())
			req.GetBody = func() (io.ReadCloser, error) { return b.reader(edit), nil }
		}
		resp, err := x.transport().RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect || hops == maxRedirects {
			return resp, nil
		}
		next, err := resp.Location()
		if err != nil || next.Scheme != to.Scheme || next.Host != to.Host {
			return resp, nil
		}
		resp.Body.Close()
		to = next
	}
}

// transport returns the transport for the requests of the exchange.
func (x *exchange) transport() http.RoundTripper {
	if x.peer != nil {
		return x.peer
	}
	return x.fw.transport
}

// header returns the headers of a request to the upstream, with a new token: a token is valid for
// one request.
func (x *exchange) header(tool string) (http.Header, error) {
	var h http.Header
	if x.peer != nil {
		h = peerHeader(x.r, x.e.modern, x.fw.o.AgentHeaders())
	} else {
		h = requestHeader(x.r, x.e.modern, x.t.Header)
	}
	if x.f.ids != nil && x.session != "" { // the agent knows it by another id
		h[streamable.HeaderSession] = []string{x.session}
	}
	if parent := x.trace.Traceparent(); parent != "" {
		h["Traceparent"] = []string{parent}
	}
	x.fw.o.Loops.set(h, x.f.via)
	return h, x.fw.o.Sign.set(h, x.f.name, guard.Principal(x.r.Context()), tool)
}

// refusal returns the error for a response that an agent could only misunderstand.
func (x *exchange) refusal(resp *http.Response) error {
	kind := mediaType(resp.Header)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		// A 401 would tell the agent that weir rejects the agent's own token.
		return notReached(mcp.KindUpstreamProtocol, mcp.ErrFinal,
			fmt.Sprintf("upstream %q does not accept the credentials (%d): check mcpServers.%s.headers", x.f.name, code, x.f.name))
	case code >= 300 && code < 400 && code != http.StatusNotModified, code >= 500 && kind != streamable.ContentJSON:
		return failedToReach(streamable.StatusFailure(x.who(), clip(x.method()), resp))
	case x.e.id != "" && kind != streamable.ContentJSON && (kind != streamable.ContentSSE || code != http.StatusOK):
		return x.noAnswer(resp)
	}
	return nil
}

// refuse answers with err. The agent gets the upstream's status if it reports a fault of the
// request, except 401.
func (x *exchange) refuse(resp *http.Response, err error) {
	x.err = err
	code := status(err, x.w.Header())
	if s := resp.StatusCode; s >= 400 && s < 500 && s != http.StatusUnauthorized && s != http.StatusProxyAuthRequired {
		code = s
	}
	if code == 0 {
		k, _ := mcp.KindOf(err)
		code = k.Info().HTTP
	}
	guard.WriteError(x.w, code, x.e.id, err)
}

// refuseOrFail answers with the fault of a response, or with the reason why the response broke off.
func (x *exchange) refuseOrFail(resp *http.Response, err error) {
	var own *mcp.Error
	if !errors.As(err, &own) {
		x.fail(err)
		return
	}
	x.refuse(resp, err)
}

// noAnswer returns the error for a response that is not MCP, such as a web page, to a request that
// needs one. The status has the same meaning as on the other way to an upstream.
func (x *exchange) noAnswer(resp *http.Response) error {
	who, method := x.who(), clip(x.e.method)
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		if mediaType(resp.Header) == streamable.ContentJSON {
			return mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s with an empty body", who, method)
		}
		return mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s with the content type %.80q; MCP servers answer with application/json or text/event-stream", who, method, mediaType(resp.Header))
	case code == http.StatusNotFound && x.r.Header.Get(streamable.HeaderSession) != "":
		return mcp.Errorf(mcp.KindSessionNotFound, "%s no longer knows the session: it was restarted, or the session has expired; send initialize to start a new one", who)
	}
	return failedToReach(streamable.StatusFailure(who, method, resp))
}

// learn records the session ids of the response.
func (x *exchange) learn(resp *http.Response, key bindingKey) {
	given := resp.Header.Get(streamable.HeaderSession)
	ok := resp.StatusCode < 300
	if given != "" && given == key.session {
		resp.Header[streamable.HeaderSession] = x.r.Header[streamable.HeaderSession]
	}
	switch {
	case given != "" && given != key.session:
		if !streamable.ValidSessionID(given) {
			resp.Header.Del(streamable.HeaderSession)
			break
		}
		x.fw.sessions.add(bindingKey{key.upstream, key.principal, given})
		if x.f.ids != nil {
			resp.Header[streamable.HeaderSession] = []string{x.f.ids.Wrap(key.principal, x.t.URL.String(), given)}
		}
		x.f.sessionless.Store(false)
	case x.r.Method == http.MethodDelete && ok && key.session != "":
		x.fw.sessions.remove(key)
	case x.r.Method != http.MethodPost || x.e.modern || key.session != "":
	case ok && x.e.method == "initialize":
		x.f.sessionless.Store(true)
	case resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusNotFound:
		x.f.sessionless.Store(false)
	}
}

// failure returns the error for a request or a response that broke off; nil if the agent is gone.
func (x *exchange) failure(err error) error {
	switch cause := context.Cause(x.ctx); {
	case cause == errTimeout:
		x.tellCancelled()
		return tooSlow(x.f.name, x.e.method, x.limit)
	case cause == errStopped:
		return errShuttingDown()
	case x.r.Context().Err() != nil:
		return nil
	}
	var own *mcp.Error
	if errors.As(err, &own) {
		return own
	}
	x.f.modern.forget()
	return transportFailure(x.f.name, err)
}

func (x *exchange) fail(err error) {
	if reason := x.ended(err); reason != nil {
		writeError(x.w, x.e.id, reason)
	}
}

// ended records that the exchange has no answer, or half of one, because of err. It returns the
// result of failure.
func (x *exchange) ended(err error) (reason error) {
	x.err = err
	if reason = x.failure(err); reason != nil {
		x.err = reason
	}
	return reason
}

// tellCancelled notifies a legacy upstream that the caller has stopped waiting: in the legacy era
// closing the response does not say so.
func (x *exchange) tellCancelled() {
	session := x.r.Header.Get(streamable.HeaderSession)
	if x.e.modern || x.e.id == "" || session == "" || x.e.method == "initialize" {
		return
	}
	h, err := x.header("")
	if err != nil {
		x.fw.o.Logger.Error("an upstream was not told that a call is cancelled", "upstream", x.f.name, "err", err)
		return
	}
	b := getBody()
	params := append(append([]byte(`{"requestId":`), x.e.id...), `,"reason":"timed out"}`...)
	b.buf = jsonrpc.AppendNotification(b.buf[:0], "notifications/cancelled", params)
	fw, to, name, transport := x.fw, x.t.URL, x.f.name, x.transport()
	fw.mu.Lock()
	defer fw.mu.Unlock()
	if fw.requests.Closed() {
		b.release()
		return
	}
	fw.background.Go(func() {
		defer b.release()
		ctx, cancel := context.WithTimeout(fw.ctx, cancelTimeout)
		defer cancel()
		req := (&http.Request{
			Method: http.MethodPost, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: h, Body: b.reader(trace.Edit{}), ContentLength: int64(len(b.buf)),
		}).WithContext(ctx)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			fw.o.Logger.Debug("an upstream was not told that a call is cancelled", "upstream", name, "err", err)
			return
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be reused
		resp.Body.Close()
	})
}

// leavePatience is how long a request waits for an earlier one with the same id: a client may have
// read the whole response a moment before its exchange ends.
const leavePatience = 250 * time.Millisecond

// enter registers an exchange. It fails if its id is in use (spec/calls §1: a duplicate id in
// flight is refused), or during shutdown.
func (fw *forwarder) enter(x *exchange) error {
	var patience <-chan time.Time
	for {
		fw.mu.Lock()
		if fw.requests.Closed() {
			fw.mu.Unlock()
			return errShuttingDown()
		}
		left := fw.ids[x.call]
		if left == nil {
			if x.call.id != "" {
				fw.ids[x.call] = make(chan struct{})
			}
			fw.inFlight[x] = struct{}{}
			fw.requests.Enter()
			fw.mu.Unlock()
			return nil
		}
		fw.mu.Unlock()
		if patience == nil {
			timer := time.NewTimer(leavePatience)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-left:
		case <-patience:
			return mcp.Errorf(mcp.KindInvalidRequest, "request id %s is in use by a request in flight", x.call.id)
		case <-x.ctx.Done():
			return x.ctx.Err()
		}
	}
}

func (fw *forwarder) leave(x *exchange) {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	delete(fw.inFlight, x)
	if x.call.id != "" {
		close(fw.ids[x.call])
		delete(fw.ids, x.call)
	}
	fw.requests.Leave()
}

// shutdown ends the forwarder; see Router.Shutdown.
func (fw *forwarder) shutdown(ctx context.Context) error {
	fw.requests.Close()
	fw.mu.Lock()
	for x := range fw.inFlight {
		if x.endless {
			x.cancel(errStopped)
		}
	}
	fw.mu.Unlock()
	left := fw.requests.Drain(ctx.Done())
	if left > 0 {
		fw.mu.Lock()
		for x := range fw.inFlight {
			_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(shutdownGrace))
			x.cancel(errStopped)
		}
		fw.mu.Unlock()
		grace, cancel := context.WithTimeout(context.Background(), 2*shutdownGrace)
		defer cancel()
		left = fw.requests.Drain(grace.Done())
	}
	fw.stop()
	fw.background.Wait()
	if fw.pool != nil {
		fw.pool.CloseIdleConnections()
	}
	if left > 0 {
		return mcp.Errorf(mcp.KindShuttingDown, "%d forwarded requests have not ended although they were cancelled", left)
	}
	return nil
}
