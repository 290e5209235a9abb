package mcp

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Handler answers MCP requests and takes notifications.
//
// Serve is called concurrently. For a request it returns the result, or an error that [WireError]
// turns into the JSON-RPC error of the response. For a notification ([Request.IsNotification]) the
// result is ignored, and an error is only logged. ctx ends when the sender cancels the request or
// goes away for good; Serve must return soon after.
type Handler interface {
	Serve(ctx context.Context, r *Request) (json.RawMessage, error)
}

// Peer is the other side of a connection. It takes requests and notifications.
//
// Call and Notify may run concurrently. Both read params only until they return.
type Peer interface {
	// Call sends a request and waits for its result. back serves the requests and notifications of
	// the other side during this call (sampling, elicitation, roots, progress, log messages). With
	// a nil back, requests are answered with "method not found" and notifications are dropped. An
	// error that the other side answered is a *jsonrpc.Error; any other error means that there was
	// no answer. When ctx ends, Call cancels the request on the other side and returns the
	// context's error. The Peer may keep the result, but never changes it.
	Call(ctx context.Context, method string, params json.RawMessage, back Handler) (json.RawMessage, error)
	// Notify sends a notification. It returns when the message has been sent, which does not mean
	// that it was read.
	Notify(ctx context.Context, method string, params json.RawMessage) error
}

// Request is one message from a peer: a request, or a notification if it has no id. It is valid
// until Serve returns.
type Request struct {
	// ID is the raw id, zero for a notification.
	ID jsonrpc.ID
	// Method is the JSON-RPC method, such as "tools/call".
	Method string
	// Params are the raw params, nil if the message has none.
	Params json.RawMessage
	// Version is the protocol version that governs this message: the session's in the legacy era,
	// the request's own in the modern one. It is "" before the handshake of a legacy session.
	Version string
	// Session is the session of the sender and never nil. The modern era has no sessions; there it
	// stands for the principal.
	Session *Session
	// Peer reaches the sender as part of this message. Over HTTP its messages go out on this
	// request's own stream, before the response. It is never nil and must not be used after Serve
	// has returned.
	Peer Peer

	fields Params             // the fields that Fields has read
	caller *identity.Identity // the sender, if the stream knows it; else nil
}

// within returns the context of a handler of r, with the caller if the stream knows it.
func (r *Request) within(ctx context.Context) context.Context {
	if r.caller == nil {
		return ctx
	}
	return identity.With(ctx, r.caller)
}

// IsNotification reports whether r has no id, so that its sender expects no answer.
func (r *Request) IsNotification() bool { return r.ID == "" }

// Modern reports whether the message is of the modern era (2026-07-28 and
// later): no handshake, no sessions, no requests from server to client.
func (r *Request) Modern() bool { return IsModern(r.Version) }

// HandlerFunc lets a function be a Handler.
type HandlerFunc func(ctx context.Context, r *Request) (json.RawMessage, error)

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, r *Request) (json.RawMessage, error) {
	return f(ctx, r)
}

// Mux calls the Handler of a message's method.
type Mux struct {
	// Methods maps a method to its Handler. It must not change while the Mux
	// is in use.
	Methods map[string]Handler
	// Default serves every other method. If it is nil, requests are answered with "method not
	// found" and notifications are ignored.
	Default Handler
}

// Serve implements Handler.
func (m *Mux) Serve(ctx context.Context, r *Request) (json.RawMessage, error) {
	if h, ok := m.Methods[r.Method]; ok {
		return h.Serve(ctx, r)
	}
	if m.Default != nil {
		return m.Default.Serve(ctx, r)
	}
	if r.IsNotification() {
		return nil, nil
	}
	return nil, MethodNotFound(r.Method)
}

// Forward returns the Handler that hands every message to p unchanged. Requests and notifications
// of the other side during a call go back to the sender of that call.
func Forward(p Peer) Handler {
	return HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		if r.IsNotification() {
			return nil, p.Notify(ctx, r.Method, r.Params)
		}
		return p.Call(ctx, r.Method, r.Params, Back(r))
	})
}

// Back returns the Handler that hands everything to the sender of r. It is the back argument of a
// Call on behalf of r, and must not be used after r's Serve has returned.
func Back(r *Request) Handler { return Forward(r.Peer) }

// NoPeer is the Peer of a sender that cannot be reached. Notifications are dropped, and calls fail
// with KindNoBackChannel.
var NoPeer Peer = noPeer{}

type noPeer struct{}

func (noPeer) Call(_ context.Context, method string, _ json.RawMessage, _ Handler) (json.RawMessage, error) {
	return nil, Errorf(KindNoBackChannel, "%s cannot reach the client: there is no channel to it here", method)
}

func (noPeer) Notify(context.Context, string, json.RawMessage) error { return nil }
