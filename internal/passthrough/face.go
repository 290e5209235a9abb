package passthrough

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// face is one upstream as agents see it. For each request it chooses one of the two ways to the
// upstream.
type face struct {
	rt     *Router
	name   string
	up     Upstream
	server *streamable.Server // serves pass
	pass   *passthrough
	modern modernEra
	// sessionless says that the upstream, over HTTP, assigns no session ids. Then messages without
	// one are complete and can be forwarded.
	sessionless atomic.Bool
	limiter     limiter
	ids         *sessionid.Endpoint // nil: sessions end with the Router
	located     http.Handler        // finds the node of a session; nil: there is one node
	via         []string            // the mark of forwarded requests
}

// maxCalls bounds one principal's requests to one upstream in flight. It exceeds the queue of an
// agent server, whose own refusal says more; Limits set lower bounds.
const maxCalls = 4096

func newFace(rt *Router, name string, up Upstream) *face {
	f := &face{rt: rt, name: name, up: up, via: []string{rt.o.Loops.of(name)}}
	f.pass = newPassthrough(name, up, rt.o.Nodes, rt.log)
	f.pass.principals = rt.o.Principals
	f.pass.apart = func() bool { return rt.o.Sign.knows(name) }
	f.pass.judge, f.pass.audit, f.pass.observer = rt.o.Judge, rt.o.Audit, rt.o.Observer
	if rt.o.Docs != nil {
		f.pass.tasks.docs = &taskDocs{docs: rt.o.Docs, log: rt.log, name: name, target: up.Target}
		if rt.o.Elsewhere != nil {
			f.pass.tasks.docs.inc = rt.o.Nodes.Inc
		}
	}
	o := streamable.ServerOptions{
		Handler: traced{rt.o.Trace, rt.o.Memory, f.pass}, Sessionless: true, ErrorStatus: status,
		SessionIdle: rt.o.SessionIdle, KeepAlive: rt.o.KeepAlive, WriteTimeout: rt.o.WriteTimeout,
		MaxBody: rt.o.MaxBody, Memory: rt.o.Memory, MaxPrincipalCalls: maxCalls, MaxSessions: rt.o.MaxSessions, OnSession: rt.o.OnSession,
		Logger: rt.log,
	}
	if f.ids = rt.o.sessions(name); f.ids != nil {
		kept := f.ids.Around(o.Handler, f.pass.relay.Resume)
		o.Handler, o.Sessions = kept, kept
		if rt.o.Locate != nil {
			f.located = rt.o.Locate(endpointPath(name), kept, http.HandlerFunc(f.serve))
		}
	}
	f.server = streamable.NewServer(o)
	return f
}

// traced serves the requests to a passthrough as operations. The bytes that they make are counted for the principal.
type traced struct {
	tracer *trace.Tracer
	memory *memory.Pool
	pass   *passthrough
}

// Serve implements mcp.Handler.
func (t traced) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	memory.FromContext(ctx).Count(t.memory, "principal ", r.Session.Principal())
	ctx, op := t.tracer.Receive(ctx, t.pass.name, r)
	result, err := t.pass.Serve(ctx, telemetry.WithTrace(r, streamable.Header(ctx)))
	op.End(result, err)
	return result, err
}

// close ends the goroutines that belong to no request.
func (f *face) close() { f.pass.close() }

// target returns the endpoint if messages can be forwarded unchanged. ok is false if they cannot, or
// must be inspected first. In a cluster, messages of a program must: each node has a program of its own.
func (f *face) target() (t Target, ok bool) {
	if t, ok = f.up.Target(); !ok || t.Process && f.rt.o.Elsewhere != nil || f.rt.o.Judge != nil && f.rt.o.Judge.Judges(f.name) {
		return Target{}, false
	}
	return t, true
}

// serve serves a request of an agent at this node.
func (f *face) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		f.servePost(w, r)
	case http.MethodGet, http.MethodDelete:
		f.serveOther(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: GET, POST, DELETE", r.Method))
	}
}

// servePost serves messages of an agent.
func (f *face) servePost(w http.ResponseWriter, r *http.Request) {
	b := getBody()
	defer b.release()
	limits := f.rt.limits(f.name)
	most := f.rt.o.MaxBody
	if limits.MaxBody > 0 {
		most = min(most, limits.MaxBody)
	}
	if err := b.read(w, r, most, f.rt.o.Memory); err != nil {
		writeError(w, guard.RequestID(err), err)
		return
	}
	if len(b.buf) > memory.Free {
		ctx, scope := memory.WithScope(r.Context()) // for copies of the message
		defer scope.End()
		scope.Count(f.rt.o.Memory, "principal ", guard.Principal(ctx))
		r = r.WithContext(ctx)
	}
	e, err := readEnvelope(r.Header, b.buf, f.rt.o.Sign != nil)
	if err != nil {
		writeMalformed(w, e.id, err)
		return
	}
	if isTaskMethod(e.method) && e.id != "" {
		if f.taskElsewhere(w, r, e.id, taskID(e.params), func() io.ReadCloser { return b.reader(trace.Edit{}) }, int64(len(b.buf))) {
			return
		}
	}
	if e.bounded > 0 {
		if err := f.limiter.enter(f.name, limits, time.Now(), e.bounded); err != nil {
			f.tellRefused(r, e, b, err)
			e.writeError(w, err)
			return
		}
		defer f.limiter.leave(e.bounded)
	}
	if e.method == "subscriptions/listen" {
		ctx, end := guard.Lasting(r.Context())
		defer end()
		r = r.WithContext(ctx)
	}
	if target, overHTTP := f.target(); overHTTP {
		if f.handOn(w, r, target, e, b) {
			return
		}
	}
	// A ping of a session does not wait for the upstream, because the router can answer it. A ping
	// without a session asks whether there is an upstream to answer.
	if e.id != "" && (e.method != "ping" || r.Header.Get(streamable.HeaderSession) == "") {
		if _, err := f.up.Ready(r.Context()); err != nil {
			f.unready(w, r, e, b, err)
			return
		}
	}
	again := b.reader(trace.Edit{})
	defer again.Close()
	r2 := r.WithContext(r.Context())
	r2.Body, r2.ContentLength = io.NopCloser(again), int64(len(b.buf))
	f.server.ServeHTTP(w, r2)
}

// handOn forwards messages as hand does, to a program that has just ended once again.
func (f *face) handOn(w http.ResponseWriter, r *http.Request, t Target, e envelope, b *body) (handled bool) {
	var records handed
	defer records.end()
	handled, lost := f.hand(w, r, t, e, b, &records, t.Process)
	if lost != nil {
		handled, _ = f.hand(w, r, t, e, b, &records, false)
	}
	return handled
}

// hand forwards messages to an HTTP upstream unchanged, and keeps its program running meanwhile.
// handled is false if they have to go the other way. lost is set if they did not reach the program
// because it has just ended; nothing has been answered then, and the caller may try again.
func (f *face) hand(w http.ResponseWriter, r *http.Request, t Target, e envelope, b *body, records *handed, again bool) (handled bool, lost error) {
	if t.Process {
		release, err := f.up.Hold(r.Context(), e.method == "subscriptions/listen")
		if err != nil {
			records.err = err
			f.unready(w, r, e, b, err)
			return true, nil
		}
		defer func() { release(lost) }()
	}
	if !f.forwards(r.Context(), t, r.Header, e) {
		return false, nil
	}
	return true, f.rt.forward.serve(w, r, f, t, e, b, records, again)
}

// unready answers a request whose upstream is unavailable. b is nil if the request has no body.
func (f *face) unready(w http.ResponseWriter, r *http.Request, e envelope, b *body, err error) {
	f.tellRefused(r, e, b, err)
	if r.Context().Err() == nil {
		writeError(w, e.id, failedToReach(err))
	}
}

// serveOther serves GET and DELETE.
func (f *face) serveOther(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		ctx, end := guard.Lasting(r.Context())
		defer end()
		r = r.WithContext(ctx)
	}
	target, overHTTP := f.target()
	if overHTTP {
		if target.Process {
			release, err := f.up.Hold(r.Context(), r.Method == http.MethodGet)
			if err != nil {
				f.unready(w, r, envelope{}, nil, err)
				return
			}
			defer release(nil)
		}
		modern := r.Header.Get(streamable.HeaderSession) == "" && mcp.IsModern(r.Header.Get(streamable.HeaderVersion))
		if f.takes(r.Context(), target, modern) {
			_ = f.rt.forward.serve(w, r, f, target, envelope{modern: modern}, nil, &handed{}, false)
			return
		}
	}
	f.server.ServeHTTP(w, r)
}

// forwards reports whether a message goes to an HTTP upstream unchanged: the upstream speaks its
// era, and has given the agent a session or needs none.
func (f *face) forwards(ctx context.Context, t Target, h http.Header, e envelope) bool {
	switch {
	case e.modern:
		return f.takes(ctx, t, true)
	case h.Get(streamable.HeaderSession) != "", e.method == "initialize" && e.id != "":
		return f.takes(ctx, t, false)
	case f.sessionless.Load() && streamable.AcceptsBoth(h):
		// A server may refuse requests that accept only one form of a response, and may answer in
		// the form that a caller without session cannot read.
		return f.takes(ctx, t, false)
	}
	return false
}
