package streamable

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// message is an encoded message to a client. Its data is never changed. A large one is counted for the owner of the
// call that sends it, as long as a stream keeps it or a connection writes it.
type message struct {
	data []byte
	kept *keptMessage // nil if it is small
}

type keptMessage struct {
	scope memory.Scope // of data
	users atomic.Int32
}

// retain adds a user of the message, who releases it.
func (m message) retain() {
	if m.kept != nil {
		m.kept.users.Add(1)
	}
}

// release ends one use of the message. After the last one its data is invalid.
func (m message) release() {
	if m.kept != nil && m.kept.users.Add(-1) == 0 {
		m.kept.scope.End()
	}
}

// newRequest returns a request of the server. The caller is its user.
func newRequest(ctx context.Context, id jsonrpc.ID, method string, params []byte) (message, error) {
	if len(params) <= memory.Free {
		return message{data: jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(method)+64), id, method, params)}, nil
	}
	return largeMessage(ctx, withParams(jsonrpc.AppendRequest(nil, id, method, nil)), params)
}

// newNotification returns a notification. The caller is its user.
func newNotification(ctx context.Context, method string, params []byte) (message, error) {
	if len(params) <= memory.Free {
		return message{data: jsonrpc.AppendNotification(make([]byte, 0, len(params)+len(method)+48), method, params)}, nil
	}
	return largeMessage(ctx, withParams(jsonrpc.AppendNotification(nil, method, nil)), params)
}

// newResponse returns the response to a request. If there is no room for a large result, it is an error that says so.
// The caller is its user.
func newResponse(ctx context.Context, version string, id jsonrpc.ID, result []byte, err *jsonrpc.Error) message {
	if err == nil && len(result) > memory.Free {
		m, noRoom := largeMessage(ctx, append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":`...), result)
		if noRoom == nil {
			return m
		}
		result, err = nil, mcp.WireError(noRoom, version)
	}
	return message{data: appendResponse(make([]byte, 0, len(result)+len(id)+64), id, result, err)}
}

// withParams returns the text before the params of an encoded message without params.
func withParams(encoded []byte) []byte {
	return append(encoded[:len(encoded)-1], `,"params":`...)
}

// largeMessage returns the message of the text head, body and a closing brace. It needs room, for which the end of the
// call does not matter: memory.Make takes a file where there is none in memory.
func largeMessage(ctx context.Context, head, body []byte) (message, error) {
	kept := &keptMessage{}
	kept.users.Store(1)
	kept.scope.CountAs(memory.FromContext(ctx))
	ctx = context.WithValue(context.WithoutCancel(ctx), memory.Key, &kept.scope)
	data, err := memory.Make(ctx, nil, func(w io.Writer) error {
		_, headErr := w.Write(head)
		_, bodyErr := w.Write(body)
		_, tailErr := w.Write([]byte{'}'})
		return errors.Join(headErr, bodyErr, tailErr)
	})
	if err != nil {
		return message{}, mcp.NoRoom("a message of the stream", err)
	}
	return message{data: data, kept: kept}, nil
}
