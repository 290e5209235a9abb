package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// event belongs to a call. It is a notification or the response.
type event struct {
	method   string
	params   json.RawMessage
	progress bool

	final  bool // the response, which is the last event of a call
	result json.RawMessage
	err    error
	block  *memory.Block // holds result; nil if the bytes are not counted
	unread bool          // the response has not been parsed yet: it is in block
}

// call is one request in flight. The connection's reader pushes events and never waits. The
// goroutine that made the call takes them in order. So everything that belongs to the call is
// delivered before its response, without another lock.
type call struct {
	id     int64
	method string
	owner  any             // the caller; see WithCaller
	back   Handler         // may be nil
	token  json.RawMessage // the caller's own progress token; nil if it has none
	ctx    context.Context

	ready chan struct{}  // capacity 1: there are events
	held  sync.WaitGroup // requests of the other side that back is serving; Add under Conn.mu

	mu      sync.Mutex // guards below
	events  []event
	first   [1]event // room for events: most calls have only the response
	dropped int
	over    bool // further events are ignored
}

// push queues an event. If the caller is slow, push coalesces progress into the newest event and
// drops other notifications beyond the bound. The response always fits.
func (cl *call) push(ev event) {
	cl.mu.Lock()
	if cl.over {
		cl.mu.Unlock()
		ev.block.Release()
		return
	}
	if len(cl.events) >= maxCallQueue && !ev.final {
		last := len(cl.events) - 1
		if ev.progress && cl.events[last].progress {
			cl.events[last] = ev
		} else {
			cl.dropped++
		}
		cl.mu.Unlock()
		return
	}
	cl.events = append(cl.events, ev)
	cl.mu.Unlock()
	select {
	case cl.ready <- struct{}{}:
	default:
	}
}

func (cl *call) take() []event {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	evs := cl.events
	cl.events = nil
	return evs
}

// finish ends the call and drops the events that were not taken.
func (cl *call) finish() {
	cl.mu.Lock()
	cl.over = true
	cl.mu.Unlock()
	for _, ev := range cl.take() {
		ev.block.Release()
	}
}

// deliver hands events to back in order. It returns the result if the response was among them.
func (cl *call) deliver(c *Conn, evs []event) (result json.RawMessage, done bool, err error) {
	for _, ev := range evs {
		switch {
		case ev.final && ev.unread:
			result, err = cl.read(c, ev.block)
			return result, true, err
		case ev.final && ev.block != nil:
			return ev.block.Deliver(cl.ctx, ev.result), true, ev.err
		case ev.final:
			return ev.result, true, ev.err
		}
		if cl.back == nil {
			continue
		}
		r := &Request{Method: ev.method, Params: ev.params, Version: c.opts.Session.Version(), Session: c.opts.Session, Peer: c}
		if _, err := cl.back.Serve(cl.ctx, r); err != nil {
			c.opts.Logger.Debug("a notification did not reach the caller", "peer", c.opts.Name, "method", ev.method, "err", err)
		}
	}
	return nil, false, nil
}

type callerKey struct{}

// WithCaller returns a context for calls on behalf of s. A connection that several sessions share
// needs the caller to know which session a message of the server is for.
func WithCaller(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, callerKey{}, s)
}

// Caller returns the session that WithCaller set, or nil.
func Caller(ctx context.Context) *Session {
	s, _ := ctx.Value(callerKey{}).(*Session)
	return s
}

// Call implements Peer. The connection assigns its own ids and progress tokens. Notifications that
// back gets carry the caller's token.
func (c *Conn) Call(ctx context.Context, method string, params json.RawMessage, back Handler) (json.RawMessage, error) {
	cancel := func() {}
	if back != nil { // back's work ends with the call
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	cl := &call{method: method, back: back, ctx: ctx, ready: make(chan struct{}, 1)}
	cl.events = cl.first[:0]
	if s := Caller(ctx); s != nil {
		cl.owner = s
	} else {
		cl.owner = cl
	}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, notSent(c.err)
	}
	c.nextID++
	cl.id = c.nextID
	c.mu.Unlock()

	params, token, err := SwapProgressToken(params, cl.id)
	if err != nil {
		return nil, err
	}
	cl.token = token
	id := jsonrpc.IntID(cl.id)
	size := int64(len(params)+len(method)+64) * int64(1+c.opts.Copies)
	if err := memory.Take(ctx, size); err != nil {
		return nil, NoRoom(c.opts.Name+" was not sent "+method, err)
	}
	defer func() { memory.Give(ctx, size) }()
	msg := jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(method)+64), id, method, params)

	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, notSent(c.err)
	}
	c.calls[cl.id] = cl
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, cl.id)
		c.mu.Unlock()
		cancel()
		cl.held.Wait()
		cl.finish()
	}()
	o := outgoing{msg: msg}
	if c.opts.Copies == 0 { // else the other side is in this process, and holds the message after it is written
		var moved int64
		o, moved = outgoingOf(ctx, msg, int64(len(msg)))
		size -= moved
	}
	if err := c.send(ctx, o); err != nil {
		return nil, err
	}
	for {
		select {
		case <-cl.ready:
			if result, done, err := cl.deliver(c, cl.take()); done {
				return result, err
			}
		case <-ctx.Done():
			c.abandon(cl, method, ctx)
			return nil, ctx.Err()
		case <-c.ctx.Done():
			// The response may have arrived just before the end.
			if result, done, err := cl.deliver(c, cl.take()); done {
				return result, err
			}
			return nil, c.Err()
		}
	}
}

// Notify implements Peer.
func (c *Conn) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if err := c.Err(); err != nil {
		return err
	}
	size := len(method) + len(params) + 48
	if err := memory.Take(ctx, int64(size)); err != nil {
		return NoRoom(c.opts.Name+" was not sent "+method, err)
	}
	o, moved := outgoingOf(ctx, jsonrpc.AppendNotification(make([]byte, 0, size), method, params), int64(size))
	memory.Give(ctx, int64(size)-moved)
	return c.send(ctx, o)
}

// notSent returns err as the error of a message that was not sent because the connection had ended.
func notSent(err error) error {
	k, _ := KindOf(err)
	return &Error{Kind: k, Message: err.Error(), Err: errors.Join(ErrNotSent, err)}
}

// abandon notifies the other side that the caller has stopped waiting. It never cancels initialize
// (every version's lifecycle section).
func (c *Conn) abandon(cl *call, method string, ctx context.Context) {
	if method == "initialize" {
		return
	}
	reason := "cancelled"
	if context.Cause(ctx) == context.DeadlineExceeded {
		reason = "timed out"
	}
	params := fmt.Appendf(nil, `{"requestId":%d,"reason":%q}`, cl.id, reason)
	msg := jsonrpc.AppendNotification(nil, "notifications/cancelled", params)
	c.enqueue(outgoing{msg: msg}) // fails if the writer is stuck, so the other side is not reading
}

// SwapProgressToken replaces params._meta.progressToken by n and returns a clone of the old token.
// Params without a token are returned unchanged, with a nil token.
func SwapProgressToken(params json.RawMessage, n int64) (out, token json.RawMessage, err error) {
	var meta, asked []byte
	if !rawjson.MayHold(params, "_meta") || !rawjson.IsObject(params) {
		return params, nil, nil
	}
	if err := rawjson.Scan(params, rawjson.Key("_meta", &meta)); err != nil {
		return nil, nil, Errorf(KindInvalidParams, "params: %v", err)
	}
	if !rawjson.IsObject(meta) {
		return params, nil, nil
	}
	if err := rawjson.Scan(meta, rawjson.Key("progressToken", &asked)); err != nil {
		return nil, nil, Errorf(KindInvalidParams, "params._meta: %v", err)
	}
	if asked == nil {
		return params, nil, nil
	}
	token = append(json.RawMessage(nil), asked...)
	if meta, err = rawjson.Set(meta, "progressToken", []byte(jsonrpc.IntID(n))); err != nil {
		return nil, nil, Errorf(KindInvalidParams, "params._meta: %v", err)
	}
	if out, err = rawjson.Set(params, "_meta", meta); err != nil {
		return nil, nil, Errorf(KindInvalidParams, "params: %v", err)
	}
	return out, token, nil
}
