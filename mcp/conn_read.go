package mcp

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func (c *Conn) readLoop() {
	defer c.wg.Done()
	defer close(c.notices)
	for {
		data, block, err := c.next()
		if err == nil {
			c.take(data, block)
			continue
		}
		if lost := (*LostMessage)(nil); c.opts.Client && errors.As(err, &lost) && c.lose(lost, c.lost(err)) {
			continue
		}
		if !c.opts.Client && c.refuse(err) {
			continue
		}
		if !c.opts.Client && errors.Is(err, io.EOF) {
			c.drain()
		}
		c.fail(c.lost(err))
		return
	}
}

// drain waits until the requests being served are answered and the responses are written. An agent
// that closes its end of a pipe may still read the other (echo … | weir serve --stdio).
func (c *Conn) drain() {
	deadline := time.NewTimer(c.opts.Drain)
	defer deadline.Stop()
	c.ending.Store(true)
	for c.busy.Load() > 0 {
		select {
		case <-c.idle:
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
	if c.opts.Client {
		data = rawjson.RepairText(data)
	} else if id, err := jsonrpc.CheckText(data); err != nil {
		c.junk(data, id, err)
		return
	}
	if !rawjson.IsArray(data) {
		c.dispatch(data, c.now, c.reply, nil)
		return
	}
	msgs, _, err := jsonrpc.Split(data)
	if err == nil && !c.batches() {
		err = fmt.Errorf("%w: batches exist in protocol version %s only; send one message at a time", jsonrpc.ErrInvalid, V20250326)
	}
	if err != nil {
		c.junk(data, "", err)
		return
	}
	b := newBatchReply(len(msgs), c.now)
	for _, msg := range msgs {
		c.dispatch(msg, b.add, b.add, b.skip)
	}
}

func (c *Conn) batches() bool {
	v := c.opts.Session.Version()
	return v == "" || v == V20250326
}

// junk handles input that is not JSON-RPC. If the input resembles a request, id is the id of the
// request.
func (c *Conn) junk(data []byte, id jsonrpc.ID, err error) {
	switch {
	case c.opts.Client && c.spoiled(data, err):
		return
	case c.opts.Client && c.opts.Junk != nil:
		c.opts.Junk(data, err)
		return
	case c.opts.Client:
		c.opts.Logger.Warn("skipped a line that is no JSON-RPC message", "peer", c.opts.Name, "err", err, "bytes", len(data))
		return
	}
	_ = c.send(c.ctx, outgoing{msg: jsonrpc.AppendError(nil, id, ParseFailure(err))})
}

// spoiled ends the call that an unreadable response was meant for, and reports whether there is
// such a call. Half a response without an id belongs to the only call in flight.
func (c *Conn) spoiled(data []byte, err error) bool {
	id, answer := jsonrpc.Salvage(data)
	if !answer {
		return false
	}
	n, ok := id.Int()
	c.mu.Lock()
	cl := c.calls[n]
	if id == "" && errors.Is(err, jsonrpc.ErrParse) && len(c.calls) == 1 {
		for _, cl = range c.calls {
			ok = true
		}
	}
	if ok && cl != nil {
		delete(c.calls, cl.id)
	}
	c.mu.Unlock()
	if !ok || cl == nil {
		return false
	}
	c.opts.Logger.Warn("an answer cannot be read", "peer", c.opts.Name, "method", cl.method, "err", err, "bytes", len(data))
	cl.push(event{final: true, err: Answered(Errorf(KindUpstreamProtocol, "%s answered %s with a message that cannot be read: %w", c.opts.Name, cl.method, err))})
	return true
}

// ParseFailure returns the JSON-RPC error for input that jsonrpc.Parse or Split refused.
func ParseFailure(err error) *jsonrpc.Error {
	kind := KindInvalidRequest
	if errors.Is(err, jsonrpc.ErrParse) {
		kind = KindParse
	}
	return WireError(Errorf(kind, "%w", err), "")
}

// dispatch handles one message, which may be part of a batch. now and reply send the response of a
// request; the reader uses now. skip is called if there will be no response, and may be nil.
func (c *Conn) dispatch(data []byte, now, reply func(outgoing), skip func()) {
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
		c.request(&m, now, reply, skip)
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
	ev := event{final: true, result: m.Result}
	if m.Err != nil {
		ev.err = jsonrpc.ParseError(m.Err)
	} else {
		ev.block = c.claim()
	}
	if !ok || !c.settle(n, ev) {
		// A response to a cancelled call, or nonsense.
		c.opts.Logger.Debug("a response to no call in flight", "peer", c.opts.Name)
		ev.block.Release()
	}
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

func (c *Conn) noticeLoop() {
	defer c.wg.Done()
	for r := range c.notices {
		if _, err := c.opts.Handler.Serve(r.within(c.ctx), r); err != nil {
			c.opts.Logger.Debug("notification not handled", "peer", c.opts.Name, "method", r.Method, "err", err)
		}
	}
}

// batchReply collects the responses of a batch (2025-03-26) and sends them as one array after the
// last.
type batchReply struct {
	mu   sync.Mutex
	left int
	all  outgoing
	send func(outgoing)
}

func newBatchReply(n int, send func(outgoing)) *batchReply {
	return &batchReply{left: n, all: outgoing{msg: []byte{'['}}, send: send}
}

func (b *batchReply) add(resp outgoing) {
	b.mu.Lock()
	if len(b.all.msg) > 1 {
		b.all.msg = append(b.all.msg, ',')
	}
	b.all.msg = append(b.all.msg, resp.msg...)
	b.all.rooms = append(b.all.rooms, resp.rooms...)
	b.mu.Unlock()
	b.skip()
}

func (b *batchReply) skip() {
	b.mu.Lock()
	b.left--
	last := b.left == 0
	b.mu.Unlock()
	if last && len(b.all.msg) > 1 {
		b.all.msg = append(b.all.msg, ']')
		b.send(b.all)
	}
}
