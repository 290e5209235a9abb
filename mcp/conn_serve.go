package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// errCancelledByPeer is the cause of a context that notifications/cancelled ended. Such a request
// gets no response.
var errCancelledByPeer = errors.New("cancelled by the requester")

// errTooLate is returned when the connection has ended, so that a response has no receiver.
var errTooLate = errors.New("the connection has ended")

// inbound is one request of the other side:
//
//	arrived ─▶ placed (within a call, or with the Handler) ─▶ begun ─▶ served ─▶ response
type inbound struct {
	c       *Conn
	r       *Request
	handler Handler
	owner   *call // the call that the request is served within, or nil; the call waits for releaseOwner
	ctx     context.Context
	scoped  memory.Scoped // ctx for the handler; its memory is released after the response
	block   *memory.Block // contains the request, if that is counted
	cancel  context.CancelCauseFunc
	reply   func(resp outgoing)
	skip    func()        // called if there will be no response
	greeted chan struct{} // closed when the handshake is answered; nil for other requests
}

func (c *Conn) newRequest(m *jsonrpc.Message) *Request {
	r := &Request{ID: m.ID, Method: m.Method, Params: m.Params, Session: c.opts.Session, Version: c.opts.Session.Version()}
	r.Peer = &connPeer{Conn: c, r: r}
	if s, ok := c.stream.(callerStream); ok {
		r.caller = s.Caller()
	}
	return r
}

// request serves a request of the other side: within the call that owns it, or by the connection's
// Handler. Answers of the reader itself go to now.
func (c *Conn) request(m *jsonrpc.Message, now, reply func(outgoing), skip func()) {
	if c.opts.Client && m.Method == "ping" {
		now(outgoing{msg: jsonrpc.AppendResult(nil, m.ID, nil)})
		return
	}
	r := c.newRequest(m)
	in := &inbound{c: c, r: r, handler: c.opts.Handler, ctx: r.within(c.ctx), reply: reply, skip: skip}
	err := in.place()
	if err == nil {
		err = in.begin()
	}
	switch {
	case err == nil:
		if !c.opts.Client {
			in.block = c.claim()
		}
		go in.serve()
		in.awaitHandshake()
	case errors.Is(err, errTooLate):
		in.releaseOwner()
		skip()
	default:
		in.releaseOwner()
		now(outgoing{msg: jsonrpc.AppendError(nil, m.ID, WireError(err, in.r.Version))})
	}
}

// place decides how the request is served. A request of a server belongs to a call of this side. A
// request of an agent without a handshake must state its version.
func (in *inbound) place() error {
	c, r := in.c, in.r
	if c.opts.Client {
		owner, owners := c.soleCall(true)
		if owners > 1 {
			return Errorf(KindNoBackChannel, "%s asked for %s while %d clients have calls in flight, and nothing says which of them is meant; set per_session: true for it, so that each client has its own",
				c.opts.Name, r.Method, owners)
		}
		if owner != nil {
			in.owner, in.handler, in.ctx = owner, owner.back, owner.ctx
		}
		return nil
	}
	if r.Method == "initialize" {
		in.greeted = make(chan struct{})
		return nil
	}
	if r.Version != "" {
		return nil
	}
	meta, err := r.Fields().Meta()
	if err == nil && meta.Version != "" {
		r.Version = meta.Version
		err = CheckModern(meta, "")
	}
	return err
}

// begin counts the request as being served. serve ends that.
func (in *inbound) begin() error {
	c, id := in.c, in.r.ID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return errTooLate
	}
	if _, duplicate := c.serving[id]; duplicate {
		return Errorf(KindInvalidRequest, "request id %s is in use by a request in flight", id)
	}
	if len(c.serving) >= maxServing {
		return Errorf(KindOverloaded, "%d requests are being served on this connection; wait for one to finish", maxServing)
	}
	in.ctx, in.cancel = context.WithCancelCause(in.ctx)
	c.serving[id] = in.cancel
	c.wg.Add(1)
	c.busy.Add(1)
	return nil
}

// leave counts one request less, and wakes drain after the last.
func (c *Conn) leave() {
	if c.busy.Add(-1) > 0 || !c.ending.Load() {
		return
	}
	select {
	case c.idle <- struct{}{}:
	default:
	}
}

// serve calls the handler and sends the response.
func (in *inbound) serve() {
	c, r := in.c, in.r
	defer c.wg.Done()
	if in.greeted != nil {
		defer close(in.greeted)
	}
	defer c.leave()
	defer in.releaseOwner()
	in.scoped.Context = in.ctx
	defer in.scoped.Scope.End() // after the response has a copy of the result
	in.block.Deliver(&in.scoped, nil)
	result, err := in.handler.Serve(&in.scoped, r)
	if errors.Is(context.Cause(in.ctx), errCancelledByPeer) {
		in.end()
		in.skip()
		return
	}
	var resp outgoing
	if err != nil {
		if k, ok := KindOf(err); ok && k == KindInternal {
			c.opts.Logger.Error("request failed", "peer", c.opts.Name, "method", r.Method, "err", err)
		}
		resp.msg = jsonrpc.AppendError(nil, r.ID, WireError(err, r.Version))
	} else {
		resp = in.response(result)
	}
	// Free the id before the response is written, so that the requester may reuse it as soon as it
	// has the response.
	in.end()
	in.reply(resp)
}

// response returns the response with a result, or with an error if there is no room for it. It counts until it is written.
func (in *inbound) response(result []byte) outgoing {
	size := len(result) + len(in.r.ID) + 48
	share, err := memory.TakeShare(&in.scoped, int64(size))
	if err != nil {
		err = Errorf(KindMemory, "there is no room for the answer to %s: %w", in.r.Method, err)
		return outgoing{msg: jsonrpc.AppendError(nil, in.r.ID, WireError(err, in.r.Version))}
	}
	resp, _ := outgoingOf(&in.scoped, jsonrpc.AppendResult(make([]byte, 0, size), in.r.ID, result), share)
	return resp
}

// end removes the request from those being served.
func (in *inbound) end() {
	in.c.mu.Lock()
	delete(in.c.serving, in.r.ID)
	in.c.mu.Unlock()
	in.cancel(nil)
}

// releaseOwner allows the owning call to return.
func (in *inbound) releaseOwner() {
	if in.owner != nil {
		in.owner.held.Done()
	}
}

// awaitHandshake blocks the reader until a handshake is answered. Later messages depend on the
// version, and a script may have written all of them into the pipe already.
func (in *inbound) awaitHandshake() {
	if in.greeted == nil {
		return
	}
	select {
	case <-in.greeted:
	case <-in.c.ctx.Done():
	}
}

// connPeer is the Peer of one request that arrived over a Conn.
type connPeer struct {
	*Conn
	r *Request
}

// Call implements Peer. It fails for a modern client (2026-07-28 has no requests from server to
// client).
func (p *connPeer) Call(ctx context.Context, method string, params json.RawMessage, back Handler) (json.RawMessage, error) {
	if p.r.Modern() {
		return NoPeer.Call(ctx, method, params, back)
	}
	return p.Conn.Call(ctx, method, params, back)
}
