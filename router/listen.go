package router

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/weir-mcp/weir/jsonrpc"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// changes are the lists that subscriptions/listen (2026-07-28) may be about.
var changes = []struct{ key, capability, method string }{
	{"toolsListChanged", "tools", "notifications/tools/list_changed"},
	{"promptsListChanged", "prompts", "notifications/prompts/list_changed"},
	{"resourcesListChanged", "resources", "notifications/resources/list_changed"},
}

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
	wish, err := readWish(r.Params, hello.Capabilities)
	if err != nil {
		return nil, err
	}
	box := newMailbox()
	stop := p.up.Subscribe(ctx, func(method string, params json.RawMessage) {
		if slices.Contains(wish.methods, method) {
			box.put(method, params)
		}
	})
	defer stop()
	for _, uri := range wish.resources {
		stop, err := p.up.SubscribeResource(ctx, uri, box.updated)
		if err != nil {
			return nil, failedToReach(err)
		}
		defer stop()
	}
	if err := p.tell(ctx, r, "notifications/subscriptions/acknowledged", wish.granted); err != nil {
		return nil, err
	}
	if len(wish.methods)+len(wish.resources) > 0 {
		box.deliver(ctx, func(n notice) {
			if err := p.tell(ctx, r, n.method, n.params); err != nil {
				p.log.Debug("an agent was not told of a change", "upstream", p.name, "method", n.method, "err", err)
			}
		})
	}
	result, err := withSubscription(json.RawMessage("{}"), r.ID)
	return mcp.Complete(result, serverInfo(hello, p.name)), err
}

// listenModern hands the subscription on. The upstream saw another id than the
// agent's, which comes back in every message.
func (p *passthrough) listenModern(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	result, err := p.up.Call(ctx, r.Method, r.Params, &callBack{r: r, name: p.name, level: noLogs, subscription: r.ID})
	if err != nil {
		return nil, failedToReach(err)
	}
	return withSubscription(result, r.ID)
}

// tell sends a message of the subscription r.
func (p *passthrough) tell(ctx context.Context, r *mcp.Request, method string, params json.RawMessage) error {
	params, err := withSubscription(params, r.ID)
	if err != nil {
		return err
	}
	return r.Peer.Notify(ctx, method, params)
}

func withSubscription(params json.RawMessage, id jsonrpc.ID) (json.RawMessage, error) {
	return rawjson.SetPath(params, []byte(id), "_meta", mcp.MetaSubscriptionID)
}

// wish is what a subscription is about, as far as the upstream offers it.
type wish struct {
	methods   []string
	resources []string
	granted   json.RawMessage // params of the acknowledgement
}

func readWish(params, capabilities json.RawMessage) (w wish, err error) {
	wanted := rawjson.Get(params, "notifications")
	if !rawjson.IsObject(wanted) {
		return w, mcp.Errorf(mcp.KindInvalidParams, "subscriptions/listen needs notifications, an object that says of what")
	}
	has := func(capability, key string) bool {
		return string(rawjson.GetPath(capabilities, capability, key)) == "true"
	}
	out := []byte(`{"notifications":{`)
	for _, c := range changes {
		if string(rawjson.Get(wanted, c.key)) == "true" && has(c.capability, "listChanged") {
			w.methods = append(w.methods, c.method)
			out = append(rawjson.AppendString(out, c.key), `:true,`...)
		}
	}
	if uris := rawjson.Get(wanted, "resourceSubscriptions"); rawjson.IsArray(uris) && has("resources", "subscribe") {
		err = rawjson.EachElement(uris, func(v []byte) bool {
			if uri := rawjson.Text(v); uri != "" && !slices.Contains(w.resources, uri) {
				w.resources = append(w.resources, uri)
			}
			return len(w.resources) <= maxResources
		})
		switch {
		case err != nil:
			return w, mcp.Errorf(mcp.KindInvalidParams, "resourceSubscriptions: %v", err)
		case len(w.resources) > maxResources:
			return w, mcp.Errorf(mcp.KindInvalidParams, "resourceSubscriptions has more than %d resources, which is the bound", maxResources)
		case len(w.resources) > 0:
			out = append(out, `"resourceSubscriptions":[`...)
			for _, uri := range w.resources {
				out = append(rawjson.AppendString(out, uri), ',')
			}
			out = append(out[:len(out)-1], `],`...)
		}
	}
	if out[len(out)-1] == ',' {
		out = out[:len(out)-1]
	}
	w.granted = append(out, `}}`...)
	return w, nil
}
