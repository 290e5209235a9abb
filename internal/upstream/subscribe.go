package upstream

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/weir-mcp/weir/mcp"
)

// Subscribe calls fn for each notification that belongs to no call and is not an update of a
// resource: changed lists, the state of tasks, and additions of later versions. They come from the
// connection for calls of the session mcp.Caller(ctx). On a shared connection the session gets
// those that concern its principal. For each connection, fn is called in order, for one
// notification at a time. fn must not block, and must clone the params that it keeps. It may be
// called once more while stop runs.
func (u *Upstream) Subscribe(ctx context.Context, fn func(method string, params json.RawMessage)) (stop func()) {
	return u.conns.subs.Subscribe(mcp.Caller(ctx), fn)
}

// SubscribeResource calls fn for each update of a resource, over the connection for calls of the
// session mcp.Caller(ctx). It subscribes at the server for the first subscription to a resource,
// and unsubscribes after the last was stopped. After a lost connection it subscribes again. fn is
// as with Subscribe. stop does not wait. It returns the errors of a call.
func (u *Upstream) SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error) {
	w := &watch{session: mcp.Caller(ctx), uri: uri, fn: fn}
	err = w.begin(ctx, u)
	for at := u; errors.Is(err, errMoved); {
		at = at.next.Load()
		err = w.begin(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	return w.stop, nil
}

// SetLogLevel sets the log level of the session mcp.Caller(ctx), until the session ends; ""
// disables messages. Sessions that share a connection get the most verbose level of all of them:
// the caller filters the messages for its session. A server that is down or idle gets the level
// when it is back, a modern one with each call. It returns the error of the server.
func (u *Upstream) SetLogLevel(ctx context.Context, level string) error {
	return u.conns.subs.SetLogLevel(ctx, mcp.Caller(ctx), level)
}
