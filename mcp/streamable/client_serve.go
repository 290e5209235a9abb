package streamable

import (
	"context"
	"errors"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// errCancelledByServer is the cause of a context that the server's
// notifications/cancelled ended: such a request gets no answer.
var errCancelledByServer = errors.New("cancelled by the server")

// request makes what a handler gets of a message of the server.
func (c *Client) request(m jsonrpc.Message) *mcp.Request {
	return &mcp.Request{
		ID: m.ID, Method: m.Method, Params: m.Params,
		Version: c.session.Version(), Session: c.session, Peer: c,
	}
}

// serve answers a request of the server within a call, at the same time as
// whatever follows it. The goroutine belongs to the call.
func (cl *clientCall) serve(m jsonrpc.Message) {
	c := cl.c
	cl.mu.Lock()
	full := cl.serving >= maxCallServing
	if !full {
		cl.serving++
	}
	cl.mu.Unlock()
	if full {
		c.refuse(m, mcp.Errorf(mcp.KindOverloaded, "%d requests are being served within this call; wait for one to finish", maxCallServing))
		return
	}
	ctx, done, err := c.enter(cl.ctx, m.ID)
	if err != nil {
		cl.served()
		c.refuse(m, err)
		return
	}
	cl.wg.Add(1)
	go func() {
		defer cl.wg.Done()
		c.serve(ctx, cl.back, m, done)
		cl.served()
	}()
}

func (cl *clientCall) served() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.serving--
}

// serveUnowned answers a request of the server that came on the GET stream.
// The goroutine belongs to the client.
func (c *Client) serveUnowned(m jsonrpc.Message) {
	ctx, done, err := c.enter(c.ctx, m.ID)
	if err != nil {
		c.refuse(m, err)
		return
	}
	if !c.spawn(func() { c.serve(ctx, c.opts.Handler, m, done) }) {
		done()
	}
}

// enter notes a request of the server as being served, so that the server can
// cancel it. done must be called at its end.
func (c *Client) enter(parent context.Context, id jsonrpc.ID) (ctx context.Context, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, dup := c.serving[id]; dup {
		return nil, nil, mcp.Errorf(mcp.KindInvalidRequest, "request id %s is in use by a request in flight", id)
	}
	if len(c.serving) >= maxServing {
		return nil, nil, mcp.Errorf(mcp.KindOverloaded, "%d requests are being served on this connection; wait for one to finish", maxServing)
	}
	ctx, cancel := context.WithCancelCause(parent)
	c.serving[id] = cancel
	return ctx, func() {
		c.mu.Lock()
		delete(c.serving, id)
		c.mu.Unlock()
		cancel(nil)
	}, nil
}

func (c *Client) cancelServing(id jsonrpc.ID) {
	c.mu.Lock()
	cancel := c.serving[id]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errCancelledByServer)
	}
}

// serve has h answer a request and posts the answer in the background: the
// server may end the call as soon as it has read the answer, and the call does
// not wait for the status of that POST. When ctx ends there is nobody left who
// waits for an answer.
func (c *Client) serve(ctx context.Context, h mcp.Handler, m jsonrpc.Message, done func()) {
	r := c.request(m)
	result, err := h.Serve(ctx, r)
	ended := ctx.Err() != nil
	// The id is free before the answer is out, so that the server may use it
	// again as soon as it has the answer.
	done()
	if ended {
		return
	}
	var body []byte
	if err != nil {
		if k, ok := mcp.KindOf(err); ok && k == mcp.KindInternal {
			c.opts.Logger.Error("a request of the server failed", "peer", c.who, "method", m.Method, "err", err)
		}
		body = jsonrpc.AppendError(nil, m.ID, mcp.WireError(err, r.Version))
	} else {
		body = jsonrpc.AppendResult(make([]byte, 0, len(result)+len(m.ID)+48), m.ID, result)
	}
	c.send("the answer to "+m.Method, c.answer(body))
}

// refuse answers a request of the server with an error, in the background.
func (c *Client) refuse(m jsonrpc.Message, err error) {
	c.send(m.Method, c.answer(jsonrpc.AppendError(nil, m.ID, mcp.WireError(err, c.session.Version()))))
}
