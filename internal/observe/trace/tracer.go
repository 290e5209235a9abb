package trace

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Options configure a Tracer.
type Options struct {
	// Version and Instance belong to the program.
	Version, Instance string
	// Observe is called for each operation at its end. It is called concurrently and must be fast;
	// nil observes nothing.
	Observe func(Operation)
	// Redact removes secrets from texts of the log; nil removes nothing.
	Redact func(string) string
	// Logger gets failures of the export; nil discards them.
	Logger *slog.Logger
	// Transport carries the export; nil means connections of the Tracer's own.
	Transport http.RoundTripper
}

// An Operation is one request of an agent, or one request to a server.
type Operation struct {
	Client    bool // weir sent the request
	Method    string
	ErrorType string // "" if the operation succeeded
	Took      time.Duration
}

// Settings say where spans go. The zero Settings make none.
type Settings struct {
	// URL is the endpoint for traces. An http URL works for addresses that are not public.
	URL string
	// Headers are sent with each export.
	Headers map[string]string
	// Service is the name of this service in traces.
	Service string
	// Sample is the part of traces, from 0 to 1, that is kept if no parent decides.
	Sample float64
	// Timeout bounds one request of the export.
	Timeout time.Duration
}

// A Tracer follows operations. A nil Tracer follows none. It is safe for concurrent use.
type Tracer struct {
	o        Options
	exporter atomic.Pointer[exporter] // nil: no spans are made
	counts   counters

	mu       sync.Mutex // guards below
	settings Settings
	closed   bool
	leaving  sync.WaitGroup // exporters that send their last spans; Add under mu
	ctx      context.Context
	cancel   context.CancelFunc // ends leaving
}

// New returns a Tracer without an endpoint. The caller must close it.
func New(o Options) *Tracer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Observe == nil {
		o.Observe = func(Operation) {}
	}
	t := &Tracer{o: o}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// leaveTimeout bounds how long a replaced endpoint may take for its last spans.
const leaveTimeout = 10 * time.Second

// Configure makes later spans go to another endpoint. Spans that wait for the old one are still
// sent there.
func (t *Tracer) Configure(s Settings) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || reflect.DeepEqual(s, t.settings) {
		return nil
	}
	var next *exporter
	if s.URL != "" {
		var err error
		if next, err = newExporter(t, s); err != nil {
			return err
		}
	}
	t.settings = s
	if before := t.exporter.Swap(next); before != nil {
		t.leaving.Go(func() {
			ctx, cancel := context.WithTimeout(t.ctx, leaveTimeout)
			defer cancel()
			before.close(ctx)
		})
	}
	return nil
}

// Close sends the spans that wait, until ctx ends, and drops the rest.
func (t *Tracer) Close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	last := t.exporter.Swap(nil)
	t.mu.Unlock()
	stop := context.AfterFunc(ctx, t.cancel)
	defer stop()
	if last != nil {
		last.close(ctx)
	}
	t.leaving.Wait()
	t.cancel()
}

// Spans returns the fates of the spans so far.
func (t *Tracer) Spans() telemetry.SpanFigures {
	return telemetry.SpanFigures{Sent: t.counts.sent.Load(), Dropped: t.counts.dropped.Load(), Failed: t.counts.failed.Load(), Rejected: t.counts.rejected.Load()}
}

// Receiving is the operation of a received request. The zero value records nothing.
type Receiving struct {
	tracer  *Tracer
	span    *span // nil: the trace is not sampled
	request *mcp.Request
	began   time.Time
}

// Receive starts the operation of a request. server is the name of the MCP server whose endpoint the agent
// calls, "" for the endpoint of all of them. The request is served with the returned context. A nil Tracer
// records nothing.
func (t *Tracer) Receive(ctx context.Context, server string, r *mcp.Request) (context.Context, Receiving) {
	if t == nil || r.IsNotification() || Lasts(r.Method) {
		return ctx, Receiving{}
	}
	o := Receiving{tracer: t, request: r, began: time.Now()}
	if o.span = t.accept(ctx, server, r, o.began); o.span != nil {
		ctx = context.WithValue(ctx, spanKey{}, o.span)
	}
	return ctx, o
}

// End ends the operation with the answer to its request.
func (o Receiving) End(result json.RawMessage, err error) {
	if o.tracer == nil {
		return
	}
	became := outcomeOf(o.request.Method, result, err)
	if err != nil && became.status == "" {
		became = answered(err, o.request.Version)
	}
	o.tracer.ended(o.span, Operation{Method: o.request.Method, ErrorType: became.errorType}, became, o.began)
}

// answered returns the outcome of a request that weir answers with an error: its code. A cancelled
// request gets no answer.
func answered(err error, version string) outcome {
	if kind, _ := mcp.KindOf(err); kind == mcp.KindCancelled {
		return outcome{errorType: kind.String()}
	}
	code := strconv.Itoa(mcp.WireError(err, version).Code)
	return outcome{code, code}
}

// ended reports an operation. s is nil if the operation has no span.
func (t *Tracer) ended(s *span, op Operation, o outcome, began time.Time) {
	now := time.Now()
	op.Took = now.Sub(began)
	t.o.Observe(op)
	if s != nil {
		s.end(now, o)
	}
}

// Lasts reports whether a request lasts as long as its sender wants, so that its duration says
// nothing. It is no operation.
func Lasts(method string) bool { return method == "subscriptions/listen" }

// accept returns the span of an agent's request, nil if its trace is not sampled.
func (t *Tracer) accept(ctx context.Context, server string, r *mcp.Request, began time.Time) *span {
	e := t.exporter.Load()
	if e == nil {
		return nil
	}
	f := r.Fields()
	h := streamable.Header(ctx)
	s := e.root(f.RawMeta, h, r.Method, f.Name, began)
	if s == nil {
		return nil
	}
	session := ""
	if !r.Modern() { // which has no sessions
		session = r.Session.ID()
	}
	s.describe(server, session, r.Version, r.ID, h != nil)
	return s
}

// root returns the first span of an operation in this process, nil if its trace is not sampled. The
// sender's decision comes before the configured ratio.
func (e *exporter) root(meta json.RawMessage, h http.Header, method string, name json.RawMessage, began time.Time) *span {
	o, known := originOf(meta, h)
	if known && !o.sampled || !known && rand.Float64() >= e.sample {
		return nil
	}
	s := e.begin(kindServer, method, name, began)
	if !known {
		s.trace = newTraceID()
		return s
	}
	s.trace, s.parent, s.remote, s.state = o.trace, o.span, true, o.state
	return s
}

// describe adds attributes of an agent's request.
func (s *span) describe(server, session, version string, id jsonrpc.ID, http bool) {
	s.text("weir.server", server)
	if session != "" {
		s.text("mcp.session.id", telemetry.SessionTag(session))
	}
	if !mcp.Supported(version) { // an agent's header, of any size
		version = text.Line(version, maxName)
	}
	s.text("mcp.protocol.version", version)
	shown := string(id)
	if plain := rawjson.Text([]byte(id)); plain != "" {
		shown = plain
	}
	s.text("jsonrpc.request.id", text.Line(shown, maxName))
	s.over(http)
}

// over adds the transport of the operation.
func (s *span) over(http bool) {
	if !http {
		s.text("network.transport", "pipe")
		return
	}
	s.text("network.transport", "tcp")
	s.text("network.protocol.name", "http")
}

// A Server describes the other side of requests to an MCP server.
type Server struct {
	Name    string // in the configuration
	Address string // host of its URL, "" for a program at its standard streams
	Port    int64
}

// ServerAt returns the Server with a name and a URL, which is nil for a program at its standard
// streams.
func ServerAt(name string, u *url.URL) Server {
	if u == nil {
		return Server{Name: name}
	}
	port, _ := strconv.ParseInt(u.Port(), 10, 32) // 0: the default of the scheme
	switch {
	case port == 0 && u.Scheme == "https":
		port = 443
	case port == 0:
		port = 80
	}
	return Server{name, u.Hostname(), port}
}

// child returns a span below s, for a request to a server.
func (s *span) child(to *Server, method string, name json.RawMessage, began time.Time) *span {
	c := s.to.begin(kindClient, method, name, began)
	c.trace, c.parent, c.state = s.trace, s.id, s.state
	c.text("weir.server", to.Name)
	if c.text("server.address", to.Address); to.Port > 0 {
		c.number("server.port", to.Port)
	}
	c.over(to.Address != "")
	return c
}

// A Call is one request to a server. End of the zero Call does nothing.
type Call struct {
	by     *Tracer
	span   *span
	method string
	began  time.Time
}

// Begin starts a request to a server. It returns the params to send: params themselves, unless ctx
// belongs to a request with a span.
func (t *Tracer) Begin(ctx context.Context, to *Server, method string, params json.RawMessage) (Call, json.RawMessage) {
	if t == nil {
		return Call{}, params
	}
	c := Call{by: t, method: method, began: time.Now()}
	if parent := from(ctx); parent != nil {
		c.span = parent.child(to, method, rawjson.Get(params, "name"), c.began)
		params = c.span.carried(params)
	}
	return c, params
}

// End ends the request with its result or error.
func (c Call) End(result json.RawMessage, err error) {
	if c.by == nil {
		return
	}
	o := outcomeOf(c.method, result, err)
	c.by.ended(c.span, Operation{Client: true, Method: c.method, ErrorType: o.errorType}, o, c.began)
}

// toolError is the error type of a tool's result that says that the tool failed.
const toolError = "tool_error"

// maxLook is the longest result that is searched for isError.
const maxLook = 64 << 10

// outcome is how an operation ended. status is the code of its JSON-RPC error.
type outcome struct{ errorType, status string }

// outcomeOf returns the outcome of an operation. The type of an error that no side answered is the
// name of its kind.
func outcomeOf(method string, result json.RawMessage, err error) outcome {
	switch {
	case err != nil:
		return failureOf(err)
	case method == "tools/call" && len(result) <= maxLook && rawjson.MayHold(result, "isError") && string(rawjson.Get(result, "isError")) == "true":
		return outcome{errorType: toolError}
	}
	return outcome{}
}

// ErrorType returns the type of an error of a request to a server, as spans name it.
func ErrorType(err error) string { return failureOf(err).errorType }

// failureOf is outcomeOf for an error. It is apart because its variable is on the heap.
func failureOf(err error) outcome {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		code := strconv.Itoa(wire.Code)
		return outcome{code, code}
	}
	kind, _ := mcp.KindOf(err)
	return outcome{errorType: kind.String()}
}
