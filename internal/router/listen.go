package router

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/mcp"
)

// listen serves the subscription of a modern agent: by the upstream's own where
// that is modern, else by what the upstream says of itself. It lasts until the
// agent closes it.
//
//	agent ──subscriptions/listen──▶ subscribe ─▶ upstream
//	      ◀── acknowledged ── list_changed, resources/updated … each with the id
func (p *passthrough) listen(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	if !r.Modern() {
		return p.call(ctx, r) // the upstream may know it; weir does not
	}
	hello, err := p.hello(ctx)
	if err != nil {
		return nil, err
	}
	if hello.Modern {
		return p.listenModern(ctx, r)
	}
	wish, err := bridge.ReadWish(r.Params, hello.Capabilities)
	if err != nil {
		return nil, err
	}
	box := bridge.NewMailbox()
	stop := p.up.Subscribe(ctx, func(method string, params json.RawMessage) {
		if wish.Wants(method) {
			box.Put(method, params)
		}
	})
	defer stop()
	for _, uri := range wish.Resources {
		stop, err := p.up.SubscribeResource(ctx, uri, func(params json.RawMessage) {
			if p.tellsOf(params) {
				box.Updated(params)
			}
		})
		if err != nil {
			return nil, failedToReach(err)
		}
		defer stop()
	}
	if err := p.tell(ctx, r, "notifications/subscriptions/acknowledged", wish.Granted); err != nil {
		return nil, err
	}
	if !wish.Empty() {
		box.Deliver(ctx, func(n bridge.Notice) {
			if err := p.tell(ctx, r, n.Method, n.Params); err != nil {
				p.log.Debug("an agent was not told of a change", "upstream", p.name, "method", n.Method, "err", err)
			}
		})
	}
	result, err := bridge.WithSubscription(json.RawMessage("{}"), r.ID)
	return mcp.Complete(result, bridge.ServerInfo(hello, p.name)), err
}

// listenModern hands the subscription on. The upstream saw another id than the
// agent's, which comes back in every message.
func (p *passthrough) listenModern(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	back := &bridge.Back{Request: r, Server: p.who(), Level: bridge.NoLogs, Subscription: r.ID}
	result, err := p.up.Call(ctx, r.Method, r.Params, mcp.HandlerFunc(func(ctx context.Context, q *mcp.Request) (json.RawMessage, error) {
		if q.IsNotification() && q.Method == bridge.ResourceUpdated && !p.tellsOf(q.Params) {
			return nil, nil
		}
		return back.Serve(ctx, q)
	}))
	if err != nil {
		return nil, failedToReach(err)
	}
	return bridge.WithSubscription(result, r.ID)
}

// tell sends a message of the subscription r.
func (p *passthrough) tell(ctx context.Context, r *mcp.Request, method string, params json.RawMessage) error {
	params, err := bridge.WithSubscription(params, r.ID)
	if err != nil {
		return err
	}
	return r.Peer.Notify(ctx, method, params)
}
