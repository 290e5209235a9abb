package bridge

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/mcp"
)

// listen serves the subscription of a modern client until the client ends it. It uses the
// subscription of a modern server, or the notifications of a legacy server.
//
//	client ──subscriptions/listen──▶ Subscribe ─▶ server
//	       ◀── acknowledged ── list_changed, resources/updated … each with the id
func (x *Relay) listen(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	hello, err := x.hello(ctx)
	if err != nil {
		return nil, err
	}
	if hello.Modern {
		return x.listenModern(ctx, r)
	}
	wish, err := ReadWish(r.Params, hello.Capabilities)
	if err != nil {
		return nil, err
	}
	box := NewMailbox()
	stop := x.Server.Subscribe(ctx, func(method string, params json.RawMessage) {
		if wish.Wants(method) {
			box.Put(method, params)
		}
	})
	defer stop()
	for _, uri := range wish.Resources {
		stop, err := x.Server.SubscribeResource(ctx, uri, func(params json.RawMessage) {
			if x.tells(ctx, params) {
				box.Updated(params)
			}
		})
		if err != nil {
			return nil, x.failure(err)
		}
		defer stop()
	}
	if err := tell(ctx, r, Notice{"notifications/subscriptions/acknowledged", wish.Granted}); err != nil {
		return nil, err
	}
	if !wish.Empty() {
		box.Deliver(ctx, func(n Notice) {
			if err := tell(ctx, r, n); err != nil {
				x.untold(n, err)
			}
		})
	}
	result, err := WithSubscription(json.RawMessage("{}"), r.ID)
	return mcp.Complete(result, x.serverInfo(hello)), err
}

// listenModern hands the subscription to the server, which knows it by another id than the client.
// Every message to the client has the client's id.
func (x *Relay) listenModern(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	back := &Back{Request: r, Server: x.who(), Level: noLogs, Subscription: r.ID}
	result, err := x.Server.Call(ctx, r.Method, r.Params, mcp.HandlerFunc(func(inner context.Context, q *mcp.Request) (json.RawMessage, error) {
		if q.IsNotification() && q.Method == ResourceUpdated && !x.tells(ctx, q.Params) {
			return nil, nil
		}
		return back.Serve(inner, q)
	}))
	if err != nil {
		return nil, x.failure(err)
	}
	return WithSubscription(result, r.ID)
}

// tell sends a message of the subscription r.
func tell(ctx context.Context, r *mcp.Request, n Notice) error {
	params, err := WithSubscription(n.Params, r.ID)
	if err != nil {
		return err
	}
	return r.Peer.Notify(ctx, n.Method, params)
}
