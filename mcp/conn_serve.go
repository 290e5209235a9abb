package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// errCancelledByPeer is the cause of a context that notifications/cancelled
// ended: such a request gets no response.
var errCancelledByPeer = errors.New("cancelled by the requester")

// errTooLate says that the connection has ended: nobody waits for a response.
var errTooLate = errors.New("the connection has ended")

// inbound is one request of the other side:
//
//	arrived ─▶ placed (within a call, or with the Handler) ─▶ begun ─▶ served ─▶ response
type inbound struct {
	c       *Conn
	r       *Request
	handler Handler
	owner   *call // that it is served within, or nil; it does not return before letGo
	ctx     context.Context
	scoped  memory.Scoped // ctx for the handler; what its result is made of ends with the response
	cancel  context.CancelCauseFunc
	reply   func(resp []byte)
	skip    func()        // says that there will be no response
	greeted chan struct{} // closed when the handshake is answered; nil of other requests
}

func (c *Conn) newRequest(m *jsonrpc.Message) *Request {
	r := &Request{ID: m.ID, Method: m.Method, Params: m.Params, Session: c.opts.Session, Version: c.opts.Session.Version()}
	r.Peer = &connPeer{Conn: c, r: r}
	return r
}

// request serves a request of the other side: within the call that owns it, or
// by the connection's Handler. What the reader can answer by itself goes to now.
func (c *Conn) request(m *jsonrpc.Message, now, reply func([]byte), skip func()) {
	if c.opts.Client && m.Method == "ping" {
		now(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	}
	in := &inbound{c: c, r: c.newRequest(m), handler: c.opts.Handler, ctx: c.ctx, reply: reply, skip: skip}
	err := in.place()
	if err == nil {
		err = in.begin()
	}
	switch {
	case err == nil:
		go in.serve()
		in.awaitHandshake()
	case errors.Is(err, errTooLate):
		in.letGo()
		skip()
	default:
		in.letGo()
		now(jsonrpc.AppendError(nil, m.ID, WireError(err, in.r.Version)))
	}
}

// place finds who serves the request. What a server asks belongs to a call of
// ours; what an agent asks without a handshake must say its version itself.
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

// begin enters the request into those that are being served, which serve ends.
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

// serve has the request answered and sends the response.
func (in *inbound) serve() {
	c, r := in.c, in.r
	defer c.wg.Done()
	if in.greeted != nil {
		defer close(in.greeted)
	}
	defer c.leave()
	defer in.letGo()
	in.scoped.Context = in.ctx
	defer in.scoped.Scope.End() // when the response has a copy of the result
	result, err := in.handler.Serve(&in.scoped, r)
	if errors.Is(context.Cause(in.ctx), errCancelledByPeer) {
		in.end()
		in.skip()
		return
	}
	var resp []byte
	if err != nil {
		if k, ok := KindOf(err); ok && k == KindInternal {
			c.opts.Logger.Error("request failed", "peer", c.opts.Name, "method", r.Method, "err", err)
		}
		resp = jsonrpc.AppendError(nil, r.ID, WireError(err, r.Version))
	} else {
		resp = jsonrpc.AppendResult(make([]byte, 0, len(result)+len(r.ID)+48), r.ID, result)
	}
	// The id is free before the response is out, so that the requester may use it
	// again as soon as it has the response.
	in.end()
	in.reply(resp)
}

// end takes the request out of those that are being served.
func (in *inbound) end() {
	in.c.mu.Lock()
	delete(in.c.serving, in.r.ID)
	in.c.mu.Unlock()
	in.cancel(nil)
}

// letGo lets the call that owns the request return.
func (in *inbound) letGo() {
	if in.owner != nil {
		in.owner.held.Done()
	}
}

// awaitHandshake keeps the reader until a handshake is answered: what follows
// depends on the version, and is there already where a script has written it all
// into a pipe.
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

// Call implements Peer. A modern client cannot be asked (2026-07-28: no
// requests from server to client).
func (p *connPeer) Call(ctx context.Context, method string, params json.RawMessage, back Handler) (json.RawMessage, error) {
	if p.r.Modern() {
		return NoPeer.Call(ctx, method, params, back)
	}
	return p.Conn.Call(ctx, method, params, back)
}
