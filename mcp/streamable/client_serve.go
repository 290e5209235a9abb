package streamable

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// errCancelledByServer is the cause of a context that the server's notifications/cancelled ended.
// Such a request gets no answer.
var errCancelledByServer = errors.New("cancelled by the server")

// request returns the Request for a message of the server.
func (c *Client) request(m jsonrpc.Message) *mcp.Request {
	return &mcp.Request{
		ID: m.ID, Method: m.Method, Params: m.Params,
		Version: c.session.Version(), Session: c.session, Peer: c,
	}
}

// serve answers a request of the server within a call. Later messages are handled concurrently. The
// goroutine belongs to the call.
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
	ctx, done, err := c.serving.begin(cl.ctx, m.ID)
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

// servedRequests are the requests of the server that are being answered. It is safe for concurrent
// use.
type servedRequests struct {
	mu   sync.Mutex // guards byID
	byID map[jsonrpc.ID]context.CancelCauseFunc
}

// begin registers a request, so that the server can cancel it. The caller must call done after
// answering.
func (s *servedRequests) begin(parent context.Context, id jsonrpc.ID) (ctx context.Context, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, dup := s.byID[id]; dup {
		return nil, nil, mcp.Errorf(mcp.KindInvalidRequest, "request id %s is in use by a request in flight", id)
	}
	if len(s.byID) >= maxServing {
		return nil, nil, mcp.Errorf(mcp.KindOverloaded, "%d requests are being served on this connection; wait for one to finish", maxServing)
	}
	if s.byID == nil {
		s.byID = map[jsonrpc.ID]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(parent)
	s.byID[id] = cancel
	return ctx, func() {
		s.mu.Lock()
		delete(s.byID, id)
		s.mu.Unlock()
		cancel(nil)
	}, nil
}

// cancel ends the context of a request, if it is being answered.
func (s *servedRequests) cancel(id jsonrpc.ID) {
	s.mu.Lock()
	cancel := s.byID[id]
	s.mu.Unlock()
	if cancel != nil {
		cancel(errCancelledByServer)
	}
}

func (s *servedRequests) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// serve lets h answer a request and posts the answer in the background: the server may end the call
// as soon as it has read the answer, and the call does not wait for the status of that POST. When
// ctx ends, the answer is not needed any more.
func (c *Client) serve(ctx context.Context, h mcp.Handler, m jsonrpc.Message, done func()) {
	r := c.request(m)
	result, err := h.Serve(ctx, r)
	ended := ctx.Err() != nil
	// Free the id before the answer is sent, so that the server may reuse it as soon as it has the
	// answer.
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
