package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/jsonrpc"
	"github.com/weir-mcp/weir/rawjson"
)

// Stream carries whole JSON-RPC messages in both directions: a child's stdin
// and stdout, a pair of pipes, an SSE stream with its POSTs.
type Stream interface {
	// Read returns the next message. The slice belongs to the caller. io.EOF
	// means that the other side ended. An error of KindTooLarge stands for one
	// message, any other is final. One goroutine reads.
	Read() ([]byte, error)
	// Write sends one message and does not keep msg. One goroutine writes.
	Write(msg []byte) error
	// Close ends the stream and unblocks Read and Write. It may be called at
	// any time and more than once.
	Close() error
}

// batchStream is a Stream that can send several messages in one go.
type batchStream interface{ WriteAll(msgs [][]byte) error }

// Bounds of one connection.
const (
	maxServing    = 1024 // requests of the other side served at once
	maxCallQueue  = 256  // undelivered messages of one call
	writeQueueLen = 256  // messages on their way out
	maxNotifyLen  = 1024 // undelivered notifications that belong to no call
)

// ConnOptions configures a Conn. The zero value serves nothing and logs
// nothing.
type ConnOptions struct {
	// Name is what error messages call the other side, such as
	// `upstream "files"`.
	Name string
	// Handler serves what the other side sends and no call of ours owns. On a
	// server that is everything the agent asks. Nil answers every request with
	// "method not found".
	Handler Handler
	// Session is who sits at the other side, for the Requests that Handler
	// gets. A new local one where nil. It is closed with the connection.
	Session *Session
	// Client says that this side is the client. Then what is no JSON-RPC
	// message is logged and skipped instead of answered (children print all
	// sorts of things to stdout), ping is answered here, and what the server
	// sends is handed to the call that owns it.
	Client bool
	// Drain is how long a server goes on answering what it was asked when the
	// agent has closed its end; 4.5 s when zero.
	Drain time.Duration
	// Logger takes what goes wrong; nil discards it.
	Logger *slog.Logger
}

// Conn speaks JSON-RPC over a Stream, both ways at once: it is a Peer for the
// other side and calls a Handler for what the other side sends.
//
// A message from the other side belongs to a call when its progress token or
// subscription id says so, or, on a connection that several sessions share,
// when one session alone has calls in flight. A request that might belong to
// several is answered with an error, because to ask the wrong person is worse
// than to ask nobody.
type Conn struct {
	stream  Stream
	opts    ConnOptions
	out     chan []byte
	notices chan *Request // notifications for opts.Handler, in order
	flush   chan chan struct{}
	busy    atomic.Int64 // requests whose response is not queued yet

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards below
	calls   map[int64]*call
	serving map[jsonrpc.ID]context.CancelCauseFunc
	nextID  int64
	err     error
}

// errCancelledByPeer is the cause of a context that notifications/cancelled
// ended: such a request gets no response.
var errCancelledByPeer = errors.New("cancelled by the requester")

// NewConn starts to read from and write to s. Close the Conn to end it.
func NewConn(s Stream, opts ConnOptions) *Conn {
	if opts.Handler == nil {
		opts.Handler = &Mux{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Drain == 0 {
		opts.Drain = 4500 * time.Millisecond
	}
	if opts.Name == "" {
		opts.Name = "the other side"
	}
	if opts.Session == nil {
		opts.Session = NewSession("", LocalPrincipal)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{
		stream: s, opts: opts, ctx: ctx, cancel: cancel,
		out: make(chan []byte, writeQueueLen), notices: make(chan *Request, maxNotifyLen), flush: make(chan chan struct{}),
		calls: map[int64]*call{}, serving: map[jsonrpc.ID]context.CancelCauseFunc{},
	}
	opts.Session.SetPeer(c)
	c.wg.Add(3)
	go c.readLoop()
	go c.writeLoop()
	go c.noticeLoop()
	return c
}

// Done is closed when the connection has ended, whichever side ended it.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err says why the connection ended: nil while it lives, an *Error of
// KindUpstreamUnavailable afterwards.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Session returns the session of the other side.
func (c *Conn) Session() *Session { return c.opts.Session }

// InFlight returns how many calls wait for an answer and how many requests of
// the other side are being served.
func (c *Conn) InFlight() (calls, serving int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls), len(c.serving)
}

// Close ends the connection and waits until everything it started has ended.
// Calls in flight fail with KindUpstreamUnavailable.
func (c *Conn) Close() error {
	c.fail(Errorf(KindUpstreamUnavailable, "%s: the connection was closed", c.opts.Name))
	c.wg.Wait()
	return nil
}

// fail ends the connection once, with the first reason given.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.cancel()
	if err := c.stream.Close(); err != nil {
		c.opts.Logger.Debug("closing the stream", "peer", c.opts.Name, "err", err)
	}
	c.opts.Session.Close()
}

func (c *Conn) lost(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, io.EOF) {
		return Errorf(KindUpstreamUnavailable, "%s closed the connection", c.opts.Name)
	}
	return &Error{Kind: KindUpstreamUnavailable, Message: c.opts.Name + ": the connection broke", Err: err}
}

func (c *Conn) writeLoop() {
	defer c.wg.Done()
	batcher, _ := c.stream.(batchStream)
	var batch [][]byte
	var flushed chan struct{}
	for {
		batch = batch[:0]
		if flushed != nil && len(c.out) == 0 {
			close(flushed)
			flushed = nil
		}
		select {
		case <-c.ctx.Done():
			return
		case flushed = <-c.flush:
			continue
		case msg := <-c.out:
			batch = append(batch, msg)
		}
		for size := len(batch[0]); batcher != nil && size < 64<<10 && len(batch) < 64; {
			select {
			case msg := <-c.out:
				batch = append(batch, msg)
				size += len(msg)
				continue
			default:
			}
			break
		}
		var err error
		if len(batch) == 1 || batcher == nil {
			err = c.stream.Write(batch[0])
		} else {
			err = batcher.WriteAll(batch)
		}
		if err != nil {
			// A child that dies takes its stdin with it first and its stdout a
			// moment later. The reader then knows why, so it may say it.
			select {
			case <-c.ctx.Done():
			case <-time.After(time.Second):
				c.fail(c.lost(err))
			}
			return
		}
	}
}

// send queues a message for the writer.
func (c *Conn) send(ctx context.Context, msg []byte) error {
	select {
	case c.out <- msg:
		return nil
	default:
	}
	select {
	case c.out <- msg:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return c.Err()
	}
}

// offer is send for those who must not wait: what does not fit is dropped.
func (c *Conn) offer(msg []byte) {
	select {
	case c.out <- msg:
	default:
		c.opts.Logger.Warn("dropped an answer: too many wait to be sent", "peer", c.opts.Name)
	}
}

// Notify implements Peer.
func (c *Conn) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.send(ctx, jsonrpc.AppendNotification(make([]byte, 0, len(method)+len(params)+48), method, params))
}

func (c *Conn) readLoop() {
	defer c.wg.Done()
	defer close(c.notices)
	for {
		data, err := c.stream.Read()
		if k, _ := KindOf(err); k == KindTooLarge && !c.opts.Client {
			// The message is gone, and its id with it; others may follow. A
			// server's message would be an answer that somebody waits for.
			_ = c.send(c.ctx, jsonrpc.AppendError(nil, "", WireError(err, "")))
			continue
		}
		if err != nil {
			if !c.opts.Client && errors.Is(err, io.EOF) {
				c.drain()
			}
			c.fail(c.lost(err))
			return
		}
		c.receive(data)
	}
}

// drain lets the requests that are being served finish and their responses go
// out: an agent that closes its end of a pipe may still read the other
// (echo … | weir serve --stdio).
func (c *Conn) drain() {
	deadline := time.NewTimer(c.opts.Drain)
	defer deadline.Stop()
	idle := time.NewTicker(5 * time.Millisecond)
	defer idle.Stop()
	for {
		if c.busy.Load() == 0 {
			break
		}
		select {
		case <-idle.C:
		case <-deadline.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
	flushed := make(chan struct{})
	select {
	case c.flush <- flushed:
	case <-deadline.C:
		return
	case <-c.ctx.Done():
		return
	}
	select {
	case <-flushed:
	case <-deadline.C:
	case <-c.ctx.Done():
	}
}

// receive handles one frame: a message, or a batch of them.
func (c *Conn) receive(data []byte) {
	if !c.opts.Client {
		if err := jsonrpc.CheckText(data); err != nil {
			c.junk(data, "", err)
			return
		}
	}
	msgs, batch, err := jsonrpc.Split(data)
	if err == nil && batch && !c.batches() {
		err = fmt.Errorf("%w: batches exist in protocol version %s only; send one message at a time", jsonrpc.ErrInvalid, V20250326)
	}
	if err != nil {
		c.junk(data, "", err)
		return
	}
	if !batch {
		c.dispatch(data, false, func(resp []byte) { _ = c.send(c.ctx, resp) }, nil)
		return
	}
	b := newBatchReply(len(msgs), func(resp []byte) { _ = c.send(c.ctx, resp) })
	for _, msg := range msgs {
		c.dispatch(msg, true, b.add, b.skip)
	}
}

func (c *Conn) batches() bool {
	v := c.opts.Session.Version()
	return v == "" || v == V20250326
}

func (c *Conn) junk(data []byte, id jsonrpc.ID, err error) {
	if c.opts.Client {
		c.opts.Logger.Warn("skipped a line that is no JSON-RPC message", "peer", c.opts.Name, "err", err, "bytes", len(data))
		return
	}
	_ = c.send(c.ctx, jsonrpc.AppendError(nil, id, ParseFailure(err)))
}

// ParseFailure is the JSON-RPC error for what jsonrpc.Parse or Split refused.
func ParseFailure(err error) *jsonrpc.Error {
	kind := KindInvalidRequest
	if errors.Is(err, jsonrpc.ErrParse) {
		kind = KindParse
	}
	return WireError(Errorf(kind, "%w", err), "")
}

// dispatch handles one message, which may be part of a batch. reply sends the
// response of a request; skip, which may be nil, says that there will be none.
func (c *Conn) dispatch(data []byte, batch bool, reply func([]byte), skip func()) {
	if skip == nil {
		skip = func() {}
	}
	m, err := jsonrpc.Parse(data)
	if err != nil {
		c.junk(data, m.ID, err)
		skip()
		return
	}
	switch m.Kind() {
	case jsonrpc.Request:
		c.request(&m, batch, reply, skip)
	case jsonrpc.Notification:
		c.notification(&m)
		skip()
	default:
		c.response(&m)
		skip()
	}
}

func (c *Conn) response(m *jsonrpc.Message) {
	n, ok := m.ID.Int()
	c.mu.Lock()
	cl := c.calls[n]
	delete(c.calls, n)
	c.mu.Unlock()
	if !ok || cl == nil {
		// A response to a call that was cancelled, or nonsense.
		c.opts.Logger.Debug("a response to no call in flight", "peer", c.opts.Name)
		return
	}
	ev := event{final: true, result: m.Result}
	if m.Err != nil {
		ev.err = jsonrpc.ParseError(m.Err)
	}
	cl.push(ev)
}

func (c *Conn) notification(m *jsonrpc.Message) {
	switch m.Method {
	case "notifications/cancelled":
		id := jsonrpc.ID(rawjson.Get(m.Params, "requestId"))
		c.mu.Lock()
		cancel := c.serving[id]
		c.mu.Unlock()
		if cancel != nil {
			cancel(errCancelledByPeer)
		}
		return
	case "notifications/progress":
		token := jsonrpc.ID(rawjson.Get(m.Params, "progressToken"))
		if n, ok := token.Int(); ok {
			c.mu.Lock()
			cl := c.calls[n]
			c.mu.Unlock()
			if cl != nil && cl.token != nil {
				if params, err := rawjson.Set(m.Params, "progressToken", cl.token); err == nil {
					cl.push(event{method: m.Method, params: params, progress: true})
				}
				return
			}
		}
		return // late or forged: its call is gone
	case "notifications/tools/list_changed", "notifications/resources/list_changed",
		"notifications/prompts/list_changed", "notifications/resources/updated":
		if cl := c.subscriber(m.Params); cl != nil {
			cl.push(event{method: m.Method, params: m.Params})
			return
		}
	default:
		if c.opts.Client {
			cl := c.subscriber(m.Params)
			if cl == nil {
				cl, _ = c.soleCall(false)
			}
			if cl != nil {
				cl.push(event{method: m.Method, params: m.Params})
				return
			}
		}
	}
	select {
	case c.notices <- c.newRequest(m):
	default:
		c.opts.Logger.Warn("dropped a notification: too many wait to be handled", "peer", c.opts.Name, "method", m.Method)
	}
}

// subscriber finds the subscriptions/listen call that a modern notification
// names.
func (c *Conn) subscriber(params []byte) *call {
	id := jsonrpc.ID(rawjson.GetPath(params, "_meta", MetaSubscriptionID))
	n, ok := id.Int()
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[n]
}

// soleCall returns the newest call in flight where all calls that can take
// messages belong to one session, and otherwise how many sessions there are.
// With hold, that call does not return before held.Done was called.
func (c *Conn) soleCall(hold bool) (newest *call, owners int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[any]bool{}
	for _, cl := range c.calls {
		if cl.back == nil {
			continue
		}
		seen[cl.owner] = true
		if newest == nil || cl.id > newest.id {
			newest = cl
		}
	}
	if len(seen) != 1 {
		return nil, len(seen)
	}
	if hold {
		newest.held.Add(1)
	}
	return newest, 1
}

func (c *Conn) noticeLoop() {
	defer c.wg.Done()
	for r := range c.notices {
		if _, err := c.opts.Handler.Serve(c.ctx, r); err != nil {
			c.opts.Logger.Debug("notification not handled", "peer", c.opts.Name, "method", r.Method, "err", err)
		}
	}
}

func (c *Conn) newRequest(m *jsonrpc.Message) *Request {
	r := &Request{ID: m.ID, Method: m.Method, Params: m.Params, Session: c.opts.Session, Version: c.opts.Session.Version()}
	r.Peer = &connPeer{Conn: c, r: r}
	return r
}

// request serves a request of the other side: within the call that owns it, or
// by the connection's Handler.
func (c *Conn) request(m *jsonrpc.Message, batch bool, reply func([]byte), skip func()) {
	r := c.newRequest(m)
	handler := c.opts.Handler
	parent := c.ctx
	var cl *call // the call that owns the request
	// What the reader answers by itself must not wait for a server that asks but
	// does not read: others share its connection.
	now := reply
	if c.opts.Client && !batch {
		now = c.offer
	}
	refuse := func(err error) { now(jsonrpc.AppendError(nil, m.ID, WireError(err, r.Version))) }
	switch {
	case m.Method == "ping" && c.opts.Client:
		now(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	case c.opts.Client:
		var owners int
		cl, owners = c.soleCall(true)
		if owners > 1 {
			refuse(Errorf(KindNoBackChannel, "%s asked for %s while %d clients have calls in flight, and nothing says which of them is meant; set per_session: true for it, so that each client has its own",
				c.opts.Name, m.Method, owners))
			return
		}
		if cl != nil {
			handler, parent = cl.back, cl.ctx
			defer func() {
				if cl != nil {
					cl.held.Done()
				}
			}()
		}
	case m.Method != "initialize" && r.Version == "":
		meta, err := ParseMeta(m.Params)
		if err == nil && meta.Version != "" {
			r.Version = meta.Version
			err = CheckModern(meta, "")
		}
		if err != nil {
			refuse(err)
			return
		}
	}
	ctx, cancel := context.WithCancelCause(parent)
	c.mu.Lock()
	_, duplicate := c.serving[m.ID]
	full := len(c.serving) >= maxServing
	closed := c.err != nil
	if !duplicate && !full && !closed {
		c.serving[m.ID] = cancel
		c.wg.Add(1)
		c.busy.Add(1)
	}
	c.mu.Unlock()
	switch {
	case closed:
		cancel(nil)
		skip()
		return
	case duplicate:
		cancel(nil)
		refuse(Errorf(KindInvalidRequest, "request id %s is in use by a request in flight", m.ID))
		return
	case full:
		cancel(nil)
		refuse(Errorf(KindOverloaded, "%d requests are being served on this connection; wait for one to finish", maxServing))
		return
	}
	held := cl
	cl = nil                  // from here on the goroutine lets go of it
	var greeted chan struct{} // closed when the handshake is answered
	if m.Method == "initialize" && !c.opts.Client {
		greeted = make(chan struct{})
	}
	go func() {
		defer c.wg.Done()
		if greeted != nil {
			defer close(greeted)
		}
		defer c.busy.Add(-1)
		if held != nil {
			defer held.held.Done()
		}
		result, err := handler.Serve(ctx, r)
		if errors.Is(context.Cause(ctx), errCancelledByPeer) {
			c.served(m.ID, cancel)
			skip()
			return
		}
		var resp []byte
		if err != nil {
			if k, ok := KindOf(err); ok && k == KindInternal {
				c.opts.Logger.Error("request failed", "peer", c.opts.Name, "method", m.Method, "err", err)
			}
			resp = jsonrpc.AppendError(nil, m.ID, WireError(err, r.Version))
		} else {
			resp = jsonrpc.AppendResult(make([]byte, 0, len(result)+len(m.ID)+48), m.ID, result)
		}
		// The id is free before the response is out, so that the requester
		// may use it again as soon as it has the response.
		c.served(m.ID, cancel)
		reply(resp)
	}()
	if greeted == nil {
		return
	}
	// What follows depends on the version, and is there already where a script has
	// written it all into a pipe.
	select {
	case <-greeted:
	case <-c.ctx.Done():
	}
}

func (c *Conn) served(id jsonrpc.ID, cancel context.CancelCauseFunc) {
	c.mu.Lock()
	delete(c.serving, id)
	c.mu.Unlock()
	cancel(nil)
}

// connPeer is the Peer of one request that arrived over a Conn.
type connPeer struct {
	*Conn
	r *Request
}

// Call implements Peer. A modern client cannot be asked (2026-07-28: no
// requests from server to client).
func (p *connPeer) Call(ctx context.Context, method string, params json.RawMessage, back Handler) (json.RawMessage, error) {
	if p.r.Modern() {
		return NoPeer.Call(ctx, method, params, back)
	}
	return p.Conn.Call(ctx, method, params, back)
}

// batchReply collects the responses of a batch (2025-03-26) and sends them as
// one array when the last is there.
type batchReply struct {
	mu   sync.Mutex
	left int
	buf  []byte
	send func([]byte)
}

func newBatchReply(n int, send func([]byte)) *batchReply {
	return &batchReply{left: n, buf: []byte{'['}, send: send}
}

func (b *batchReply) add(resp []byte) {
	b.mu.Lock()
	if len(b.buf) > 1 {
		b.buf = append(b.buf, ',')
	}
	b.buf = append(b.buf, resp...)
	b.mu.Unlock()
	b.skip()
}

func (b *batchReply) skip() {
	b.mu.Lock()
	b.left--
	last := b.left == 0
	b.mu.Unlock()
	if last && len(b.buf) > 1 {
		b.send(append(b.buf, ']'))
	}
}
