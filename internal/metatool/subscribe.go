package metatool

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
)

// feed is an optional interface of an upstream's Peer that subscribes to resources.
type feed interface {
	SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error)
}

// watch calls put for each update of a resource if the controls let the agent read it, because an
// update reveals a part of a resource. Updates of other resources, such as those below it, are
// dropped if the controls refuse those.
func (n *natives) watch(ctx context.Context, r *mcp.Request, e *catalog.Entry, uri, asked string, put func(method string, params json.RawMessage)) (stop func(), err error) {
	call := newRead(r, n.caller.state.session(r), nil, e, methodSubscribe, rawjson.Quote(uri))
	call.URI = uri
	if err := n.admit(ctx, call); err != nil {
		return nil, err
	}
	if err := call.Pass.Check(call.Method); err != nil {
		return nil, err
	}
	if err := call.Pass.Holds(ctx); err != nil {
		return nil, asProtocol(err)
	}
	ctx = mcp.WithCaller(ctx, r.Session)
	peer, err := n.caller.upstreams.Peer(ctx, e.Upstream)
	if err != nil {
		return nil, err
	}
	server, ok := peer.(feed)
	if !ok {
		return nil, mcp.Errorf(mcp.KindMethodNotFound, "server %q keeps no subscriptions", e.Upstream)
	}
	if err := n.accounts.audit.start(ctx, call); err != nil {
		return nil, err
	}
	defer func() { n.accounts.audit.ended(call, nil, err) }()
	reader := lasting(ctx)
	return server.SubscribeResource(ctx, uri, func(params json.RawMessage) {
		about := rawjson.Text(rawjson.Get(params, "uri"))
		front := n.caller.state.front.Load()
		if selected, _ := extentOf(front.opts.Profiles, identity.RouteOf(reader).Profile); !selected.reads(e.Upstream, e.Namespace) {
			return
		}
		if front.direct.Refuses(reader, []Place{{Upstream: e.Upstream, Namespace: e.Namespace}}, dispatch.MethodRead, about) {
			return
		}
		if asked != uri && about == uri {
			// The client knows it by another name.
			if renamed, err := rawjson.Set(params, "uri", rawjson.Quote(asked)); err == nil {
				params = renamed
			}
		}
		put(bridge.ResourceUpdated, params)
	})
}

// lasting returns a context that says of the caller what conditions look at. It outlives the request,
// so it has no credential and nothing else of the request.
func lasting(ctx context.Context) context.Context {
	return identity.WithRoute(identity.With(context.Background(), identity.From(ctx).WithoutCredential()), identity.RouteOf(ctx))
}

// subscribe answers resources/subscribe of the legacy era.
func (n *natives) subscribe(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	st := n.caller.state.session(r)
	uri, e, err := n.wanted(r, st)
	if err != nil {
		return nil, err
	}
	asked := rawjson.Text(r.Fields().URI)
	n.followers.follow(choiceOf(ctx), r, st)
	st.mu.Lock()
	if st.ended { // while the subscription was in flight
		st.mu.Unlock()
		return nil, mcp.Errorf(mcp.KindSessionNotFound, "the session has ended")
	}
	if st.subs == nil {
		st.subs = map[string]func(){}
	}
	_, double := st.subs[asked]
	full := bridge.CheckRoom(st.subs, asked)
	if !double && full == nil {
		st.subs[asked] = func() {} // reserves the slot
	}
	put := st.follows.put
	st.mu.Unlock()
	switch {
	case double:
		return json.RawMessage("{}"), nil
	case full != nil:
		return nil, full
	}
	stop, err := n.watch(ctx, r, e, uri, asked, put)
	st.mu.Lock()
	_, there := st.subs[asked]
	if there && err == nil {
		st.subs[asked] = stop
	} else if err != nil {
		delete(st.subs, asked)
	}
	st.mu.Unlock()
	if err != nil {
		return nil, n.caller.redactError(err)
	}
	if !there { // unsubscribed meanwhile, or the session has ended
		stop()
	}
	return json.RawMessage("{}"), nil
}

// unsubscribe is the inverse of subscribe.
func (n *natives) unsubscribe(r *mcp.Request) (json.RawMessage, error) {
	uri := rawjson.Text(r.Fields().URI)
	if uri == "" {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s needs a uri", r.Method)
	}
	st := n.caller.state.session(r)
	st.mu.Lock()
	stop := st.subs[uri]
	delete(st.subs, uri)
	st.mu.Unlock()
	if stop != nil {
		stop()
	}
	return json.RawMessage("{}"), nil
}

// listen serves subscriptions/listen of the modern era until the client closes
// it.
func (n *natives) listen(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	if !r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	ctx, end := guard.Lasting(ctx)
	defer end()
	s := n.caller.upstreams.Snapshot()
	wish, err := bridge.ReadWish(r.Params, capabilities(s.hasPrompts(), s.hasContents(), false))
	if err != nil {
		return nil, err
	}
	box := bridge.NewMailbox()
	defer n.followers.attach(newFollower(choiceOf(ctx), func(method string, params json.RawMessage) {
		if wish.Wants(method) {
			box.Put(method, params)
		}
	}))()
	st := n.caller.state.session(r)
	for _, asked := range append([]string(nil), wish.Resources...) {
		one := *r
		one.Params = append(rawjson.AppendString([]byte(`{"uri":`), asked), '}')
		uri, e, err := n.wanted(&one, st)
		if err == nil {
			var stop func()
			if stop, err = n.watch(ctx, &one, e, uri, asked, box.Put); err == nil {
				defer stop()
				continue
			}
		} else {
			n.accounts.audit.probes.failed(ctx, &one, err)
		}
		n.caller.logger.DebugContext(ctx, "a resource cannot be subscribed to", "session", st.tag, "err", n.caller.redactor.Redact(err.Error()))
		wish.Drop(asked)
	}
	tell := func(method string, params json.RawMessage) error {
		params, err := bridge.WithSubscription(params, r.ID)
		if err != nil {
			return err
		}
		return r.Peer.Notify(ctx, method, params)
	}
	if err := tell("notifications/subscriptions/acknowledged", wish.Granted); err != nil {
		return nil, err
	}
	if !wish.Empty() {
		box.Deliver(ctx, func(notice bridge.Notice) {
			if err := tell(notice.Method, notice.Params); err != nil {
				n.caller.logger.DebugContext(ctx, "an agent was not told of a change", "session", st.tag, "method", notice.Method, "err", err)
			}
		})
	}
	if err := context.Cause(ctx); err != nil {
		if kind, _ := mcp.KindOf(err); kind == mcp.KindUnauthorized {
			return nil, err // the credential of the caller has ended
		}
	}
	return bridge.WithSubscription(json.RawMessage("{}"), r.ID)
}
