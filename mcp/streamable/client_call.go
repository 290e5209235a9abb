package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// clientCall is one request in flight.
type clientCall struct {
	c      *Client
	id     int64
	idRaw  jsonrpc.ID
	method string
	back   mcp.Handler     // may be nil
	token  json.RawMessage // the caller's own progress token; nil if it has none

	// httpCtx has the caller's values and ends with the call's HTTP exchange. It may outlive the
	// caller's context briefly, so that a finished stream can be read to its end and its connection
	// reused.
	httpCtx context.Context
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup // the delivering goroutine and requests being served
	block   *memory.Block  // holds the result; nil: the bytes are not counted

	mu      sync.Mutex         // guards below
	ctx     context.Context    // for handlers; ends with the call; nil before the first message
	end     context.CancelFunc // ends ctx
	queue   []queued
	space   chan struct{} // capacity 1: the queue has become shorter; nil before the first message
	bytes   int
	serving int
	running bool          // the delivering goroutine runs
	over    bool          // the response has arrived: further messages are ignored
	empty   chan struct{} // closed when over is set and the queue is empty
}

// queued is a message that belongs to a call.
type queued struct {
	m        jsonrpc.Message
	progress bool
}

func (q queued) size() int { return len(q.m.Params) + len(q.m.Method) }

// Call implements mcp.Peer. In addition to the context's errors and the answered *jsonrpc.Error it
// returns *mcp.Error of these kinds: KindUpstreamUnavailable, KindUpstreamTimeout,
// KindUnauthorized, KindPermissionDenied, KindRateLimited, KindTooLarge, KindUpstreamProtocol,
// KindInvalidParams, and KindSessionNotFound with the cause ErrSessionLost. The cause
// mcp.ErrNotSent means that the server has not seen the call.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	size := int64(len(params) + len(method) + 64)
	if err := memory.Take(ctx, size); err != nil {
		return nil, mcp.NoRoom(c.who+" was not sent "+method, err)
	}
	defer memory.Give(ctx, size)
	cl := &clientCall{c: c, id: c.nextID.Add(1), method: method, back: back}
	cl.idRaw = jsonrpc.IntID(cl.id)
	out, err := c.frame(cl.idRaw, method, params)
	if err != nil {
		return nil, err
	}
	defer out.large.release()
	cl.token = bytes.Clone(out.token) // progress may come when the caller has left, with its params
	cl.httpCtx, cl.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cl.cancel(ctx.Err()) })
	defer stop()

	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		cl.cancel(nil)
		return nil, c.notSent()
	}
	c.calls[cl.id] = cl
	c.mu.Unlock()

	result, resp, err := cl.run(out)
	delivered := cl.finish(ctx)
	c.mu.Lock()
	delete(c.calls, cl.id)
	c.mu.Unlock()
	if resp != nil {
		c.drain(cl, resp)
	} else {
		defer cl.cancel(nil)
	}

	answered := err == nil || mcp.IsAnswer(err)
	if cl.block != nil && err == nil && delivered {
		result = cl.block.Deliver(ctx, result)
	} else {
		cl.block.Release()
	}
	switch {
	case answered && delivered:
		return result, err
	case ctx.Err() != nil:
		if !answered {
			c.abandon(cl, out, ctx)
		}
		return nil, ctx.Err()
	case context.Cause(cl.httpCtx) == errClosed:
		return nil, c.Err()
	}
	return nil, err
}

// notSent returns the error for a message that was not sent because the client has ended.
func (c *Client) notSent() error {
	err := c.Err()
	if k, _ := mcp.KindOf(err); k == mcp.KindSessionNotFound {
		return err
	}
	return &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: err.Error(), Err: mcp.ErrNotSent}
}

// run sends the call and waits for its answer. If it returns a response, the caller must read its
// open body to the end.
func (cl *clientCall) run(out outgoing) (json.RawMessage, *http.Response, error) {
	c := cl.c
	resp, err := c.post(cl.httpCtx, out)
	if err != nil {
		return nil, nil, c.transportError(err)
	}
	if resp.StatusCode != http.StatusOK {
		result, err := c.refused(resp, out, cl.idRaw)
		return result, nil, err
	}
	if out.method == "initialize" {
		if err := c.keepSession(resp.Header); err != nil {
			resp.Body.Close()
			return nil, nil, err
		}
	}
	switch t := mediaType(resp.Header.Get("Content-Type")); t {
	case ContentSSE:
		return cl.stream(resp, out)
	case ContentJSON, "":
		data, block, err := c.readBody(cl.httpCtx, resp)
		resp.Body.Close()
		if err != nil {
			return nil, nil, c.halfway(out.method, err)
		}
		result, done, err := cl.receive(data, block)
		if !done {
			err = mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s with something that is no response to it", c.who, out.method))
		}
		return result, nil, err
	default:
		discard(resp)
		return nil, nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s with the content type %.80q; MCP servers answer with application/json or text/event-stream", c.who, out.method, t)
	}
}

// tooLarge returns the error for a message over the bound.
func (c *Client) tooLarge(verb string) error {
	text := ""
	if c.opts.MaxResponseKey != "" {
		text = "; raise " + c.opts.MaxResponseKey
	}
	return mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "%s %s more than %d bytes%s", c.who, verb, c.opts.MaxResponse, text))
}

// halfway returns the error for an answer that started and could not be read. Without room for it,
// the call has run; a connection that broke proves nothing.
func (c *Client) halfway(method string, err error) error {
	if full := mcp.NoRoom(c.who+" answered "+method, err); full != err {
		return mcp.Answered(full)
	}
	return err
}

// readBody reads a whole body. The caller releases the Block that contains it; the Block is nil if
// the body is not counted.
func (c *Client) readBody(ctx context.Context, resp *http.Response) ([]byte, *memory.Block, error) {
	n := resp.ContentLength
	if n > c.opts.MaxResponse {
		return nil, nil, c.tooLarge("answered with")
	}
	if n >= 0 && n <= memory.Free {
		buf := make([]byte, n)
		if _, err := io.ReadFull(resp.Body, buf); err != nil {
			return nil, nil, c.transportError(err)
		}
		return buf, nil, nil
	}
	b := c.opts.Room.NewBuffer(ctx, c.opts.MaxResponse)
	err := b.Fill(resp.Body, n)
	switch full := (*memory.Error)(nil); {
	case errors.Is(err, memory.ErrTooLarge):
		err = c.tooLarge("answered with")
	case err != nil && !errors.As(err, &full):
		err = c.transportError(err)
	}
	if err != nil {
		b.Drop()
		return nil, nil, err
	}
	block, err := b.Block()
	if err != nil {
		return nil, nil, err
	}
	data, err := block.Open(ctx)
	if err != nil {
		block.Release()
		return nil, nil, err
	}
	return data, block, nil
}

// receive handles a body, or an event of the call's own stream. done says that it contained the
// response. Then its Block, if there is one, is kept until the call returns.
func (cl *clientCall) receive(data []byte, block *memory.Block) (result json.RawMessage, done bool, err error) {
	defer func() {
		if done {
			cl.block = block
		} else {
			block.Release()
		}
	}()
	spoiled := func(text []byte, why error) bool {
		if !cl.halved(text) {
			return false
		}
		// Nothing else on this stream would end the call before its timeout.
		err, done = cl.c.unreadable(cl.method, why), true
		return true
	}
	cl.c.each(data, spoiled, func(m jsonrpc.Message) bool {
		switch {
		case m.Method != "":
			if block != nil && block.InFile() {
				m.Params = bytes.Clone(m.Params) // delivery may come after the release of the Block
			}
			cl.c.message(cl, m)
		case m.Err == nil && m.ID == cl.idRaw:
			result, done = m.Result, true
		case m.Err != nil && (m.ID == cl.idRaw || m.ID == ""):
			// An error without an id comes from a server that could not read it.
			err, done = jsonrpc.ParseError(m.Err), true
		default:
			cl.c.opts.Logger.Debug("a response to another call", "peer", cl.c.who)
		}
		return !done
	})
	return result, done, err
}

// each parses one message or a batch of them (2025-03-26) and hands each to take until take returns
// false. Unreadable input goes to spoiled; if spoiled returns false, the input is logged and
// skipped. Invalid UTF-8 becomes U+FFFD.
func (c *Client) each(data []byte, spoiled func([]byte, error) bool, take func(m jsonrpc.Message) bool) {
	data = rawjson.RepairText(data)
	msgs, _, err := jsonrpc.Split(data)
	if err != nil {
		c.junk(data, err, spoiled)
		return
	}
	for _, msg := range msgs {
		m, err := jsonrpc.Parse(msg)
		if err != nil {
			c.junk(msg, err, spoiled)
		} else if !take(m) {
			return
		}
	}
}

// unreadable returns the error for an unreadable response.
func (c *Client) unreadable(method string, why error) error {
	return mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s with a message that cannot be read: %w", c.who, method, why))
}

func (c *Client) junk(data []byte, err error, spoiled func([]byte, error) bool) {
	if spoiled(data, err) {
		return
	}
	c.opts.Logger.Warn("skipped a message that is not JSON-RPC", "peer", c.who, "err", err, "bytes", len(data))
}

// message handles a notification or request from the stream of a call, or from the GET stream if cl
// is nil.
func (c *Client) message(cl *clientCall, m jsonrpc.Message) {
	switch {
	case m.Method == "notifications/cancelled":
		id := jsonrpc.ID(rawjson.Get(m.Params, "requestId"))
		if cl != nil && id != "" {
			cl.unqueue(id)
		}
		c.serving.cancel(id)
		return
	case m.Method == "notifications/progress":
		c.progress(cl, m)
		return
	case m.Method == "ping" && m.ID != "":
		c.send("ping", c.answer(jsonrpc.AppendResult(nil, m.ID, nil)))
		return
	case cl != nil:
		cl.push(queued{m: m}, true)
		return
	case m.ID != "":
		c.listening.serve(m)
		return
	}
	if _, err := c.opts.Handler.Serve(c.ctx, c.request(m)); err != nil {
		c.opts.Logger.Debug("a notification was not handled", "peer", c.who, "method", m.Method, "err", err)
	}
}

// progress hands a progress notification to the call that its token names. Some servers send it on
// the GET stream. Late or forged ones are dropped.
func (c *Client) progress(cl *clientCall, m jsonrpc.Message) {
	token := rawjson.Get(m.Params, "progressToken")
	n, ok := jsonrpc.ID(token).Int()
	if !ok {
		return
	}
	own := cl != nil && cl.id == n
	if !own {
		c.mu.Lock()
		cl = c.calls[n]
		c.mu.Unlock()
	}
	if cl == nil || cl.token == nil {
		return
	}
	params, err := rawjson.Set(m.Params, "progressToken", cl.token)
	if err != nil {
		return
	}
	m.Params = params
	cl.push(queued{m: m, progress: true}, own)
}

// push queues a message for back. If the queue is full, progress replaces the newest progress in
// it. For other messages the call's own stream waits, which delays only this call's server; other
// streams drop the message.
func (cl *clientCall) push(q queued, own bool) {
	if cl.back == nil {
		if q.m.ID != "" {
			cl.c.refuse(q.m, mcp.MethodNotFound(q.m.Method))
		}
		return
	}
	for {
		cl.mu.Lock()
		if cl.over {
			cl.mu.Unlock()
			return
		}
		if len(cl.queue) == 0 || (len(cl.queue) < maxCallMessages && cl.bytes+q.size() <= maxCallBytes) {
			break
		}
		if last := &cl.queue[len(cl.queue)-1]; q.progress && last.progress {
			cl.bytes += q.size() - last.size()
			*last = q
			cl.mu.Unlock()
			return
		}
		cl.mu.Unlock()
		if !own {
			cl.c.opts.Logger.Debug("dropped a message of a slow call", "peer", cl.c.who, "method", q.m.Method)
			return
		}
		select {
		case <-cl.space:
		case <-cl.httpCtx.Done():
			return
		}
	}
	defer cl.mu.Unlock()
	cl.queue = append(cl.queue, q)
	cl.bytes += q.size()
	if cl.running {
		return
	}
	if cl.ctx == nil {
		cl.ctx, cl.end = context.WithCancel(cl.httpCtx)
		cl.space = make(chan struct{}, 1)
	}
	cl.running = true
	cl.wg.Add(1)
	go cl.deliver()
}

// deliver hands queued messages to back in order until the queue is empty. It starts a request only
// in its turn, so that the request cannot overtake a notification.
func (cl *clientCall) deliver() {
	defer cl.wg.Done()
	for {
		cl.mu.Lock()
		if len(cl.queue) == 0 || cl.ctx.Err() != nil {
			cl.queue, cl.bytes, cl.running = nil, 0, false
			if cl.empty != nil {
				close(cl.empty)
				cl.empty = nil
			}
			cl.mu.Unlock()
			return
		}
		q := cl.queue[0]
		cl.queue[0] = queued{}
		cl.queue = cl.queue[1:]
		cl.bytes -= q.size()
		cl.mu.Unlock()
		select {
		case cl.space <- struct{}{}:
		default:
		}
		if q.m.ID != "" {
			cl.serve(q.m)
			continue
		}
		if _, err := cl.back.Serve(cl.ctx, cl.c.request(q.m)); err != nil {
			cl.c.opts.Logger.Debug("a notification did not reach the caller", "peer", cl.c.who, "method", q.m.Method, "err", err)
		}
	}
}

// unqueue removes a request that the server has cancelled before its turn.
func (cl *clientCall) unqueue(id jsonrpc.ID) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for i, q := range cl.queue {
		if q.m.ID == id {
			cl.queue = slices.Delete(cl.queue, i, i+1)
			cl.bytes -= q.size()
			return
		}
	}
}

// finish waits until back has received everything before the response, or until the caller stops
// waiting, and reports which. Then it cancels the requests that back still serves, because the
// server does not need their answers any more.
func (cl *clientCall) finish(ctx context.Context) (delivered bool) {
	cl.mu.Lock()
	cl.over = true
	end := cl.end
	if end == nil {
		cl.mu.Unlock()
		return true
	}
	empty := make(chan struct{})
	if cl.running {
		cl.empty = empty
	} else {
		close(empty)
	}
	cl.mu.Unlock()
	select {
	case <-empty:
		delivered = cl.httpCtx.Err() == nil
	case <-ctx.Done():
	case <-cl.httpCtx.Done():
	}
	end()
	cl.wg.Wait()
	return delivered
}

// abandon notifies a legacy server that the caller has stopped waiting. In the modern era closing
// the response has done that. initialize must not be cancelled (every version's lifecycle section).
func (c *Client) abandon(cl *clientCall, out outgoing, ctx context.Context) {
	if out.modern || out.method == "initialize" {
		return
	}
	reason := "cancelled"
	if context.Cause(ctx) == context.DeadlineExceeded {
		reason = "timed out"
	}
	params := fmt.Appendf(nil, `{"requestId":%s,"reason":%q}`, cl.idRaw, reason)
	msg, err := c.frame("", "notifications/cancelled", params)
	if err != nil {
		return
	}
	c.send(msg.method, msg)
}

// Notify implements mcp.Peer. It returns when the server has accepted the notification. It does not
// send notifications/cancelled, because ids belong to this connection; end the context of a Call
// instead.
func (c *Client) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if method == "notifications/cancelled" {
		return nil
	}
	if c.Err() != nil {
		return c.notSent()
	}
	out, err := c.frame("", method, params)
	if err != nil {
		return err
	}
	defer out.large.release()
	return c.tell(ctx, out)
}

// tell posts a message that gets no response.
func (c *Client) tell(ctx context.Context, out outgoing) error {
	sctx, cancel := context.WithTimeout(ctx, c.opts.Timeouts.Send)
	defer cancel()
	resp, err := c.post(sctx, out)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && sctx.Err() != nil:
		return mcp.Errorf(mcp.KindUpstreamTimeout, "%s did not accept %s within %s", c.who, out.method, c.opts.Timeouts.Send)
	case err != nil:
		return c.transportError(err)
	case resp.StatusCode >= 300:
		_, err := c.refused(resp, out, "")
		return err
	}
	discard(resp)
	return nil
}
