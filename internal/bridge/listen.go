package bridge

import (
	"encoding/json"
	"slices"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// MaxResources bounds the resources of one session, or of one subscription, and MaxResourceBytes their URIs together.
const (
	MaxResources     = 1024
	MaxResourceBytes = 256 << 10
)

// CheckRoom returns an error of mcp.KindOverloaded if a session that is subscribed to some resources, by URI, cannot be
// subscribed to a further one.
func CheckRoom(held map[string]func(), uri string) error {
	size := len(uri)
	for u := range held {
		size += len(u)
	}
	switch {
	case len(held) >= MaxResources:
		return mcp.Errorf(mcp.KindOverloaded, "this session is subscribed to %d resources, which is the bound; unsubscribe from some", len(held))
	case size > MaxResourceBytes:
		return mcp.Errorf(mcp.KindOverloaded, "with this one, the URIs that this session is subscribed to have %d bytes, and may have %d; unsubscribe from some", size, MaxResourceBytes)
	}
	return nil
}

// changes are the lists that subscriptions/listen (2026-07-28) may name.
var changes = []struct{ key, capability, method string }{
	{"toolsListChanged", "tools", ToolsChanged},
	{"promptsListChanged", "prompts", PromptsChanged},
	{"resourcesListChanged", "resources", ResourcesChanged},
}

// Wish is the content of a subscription, as far as the server offers it.
type Wish struct {
	Methods   []string        // of notifications
	Resources []string        // URIs
	Granted   json.RawMessage // params of notifications/subscriptions/acknowledged
}

// Empty reports whether the subscription will never get a notification.
func (w *Wish) Empty() bool { return len(w.Methods)+len(w.Resources) == 0 }

// Wants reports whether the subscription includes a notification of a list.
func (w *Wish) Wants(method string) bool { return slices.Contains(w.Methods, method) }

// ReadWish reads the params of subscriptions/listen, restricted to the capabilities of a server.
// The error is of mcp.KindInvalidParams.
func ReadWish(params, capabilities json.RawMessage) (w Wish, err error) {
	wanted := rawjson.Get(params, "notifications")
	if !rawjson.IsObject(wanted) {
		return w, mcp.Errorf(mcp.KindInvalidParams, "subscriptions/listen needs notifications, an object that says of what")
	}
	has := func(capability, key string) bool {
		return string(rawjson.GetPath(capabilities, capability, key)) == "true"
	}
	for _, c := range changes {
		if string(rawjson.Get(wanted, c.key)) == "true" && has(c.capability, "listChanged") {
			w.Methods = append(w.Methods, c.method)
		}
	}
	size := 0
	if uris := rawjson.Get(wanted, "resourceSubscriptions"); rawjson.IsArray(uris) && has("resources", "subscribe") {
		err = rawjson.EachElement(uris, func(v []byte) bool {
			if uri := rawjson.Text(v); uri != "" && !slices.Contains(w.Resources, uri) {
				w.Resources = append(w.Resources, uri)
				size += len(uri)
			}
			return len(w.Resources) <= MaxResources && size <= MaxResourceBytes
		})
		switch {
		case err != nil:
			return w, mcp.Errorf(mcp.KindInvalidParams, "resourceSubscriptions: %v", err)
		case len(w.Resources) > MaxResources:
			return w, mcp.Errorf(mcp.KindInvalidParams, "resourceSubscriptions has more than %d resources, which is the bound", MaxResources)
		case size > MaxResourceBytes:
			return w, mcp.Errorf(mcp.KindInvalidParams, "the URIs in resourceSubscriptions may have %d bytes together, and have more; subscribe to fewer", MaxResourceBytes)
		}
	}
	w.grant()
	return w, nil
}

// Drop removes a resource from the granted ones.
func (w *Wish) Drop(uri string) {
	w.Resources = slices.DeleteFunc(w.Resources, func(u string) bool { return u == uri })
	w.grant()
}

func (w *Wish) grant() {
	out := []byte(`{"notifications":{`)
	for _, c := range changes {
		if w.Wants(c.method) {
			out = append(rawjson.AppendString(out, c.key), `:true,`...)
		}
	}
	if len(w.Resources) > 0 {
		out = append(out, `"resourceSubscriptions":[`...)
		for _, uri := range w.Resources {
			out = append(rawjson.AppendString(out, uri), ',')
		}
		out = append(out[:len(out)-1], `],`...)
	}
	if out[len(out)-1] == ',' {
		out = out[:len(out)-1]
	}
	w.Granted = append(out, `}}`...)
}

// WithSubscription adds the id of their subscription to params or a result.
func WithSubscription(params json.RawMessage, id jsonrpc.ID) (json.RawMessage, error) {
	return rawjson.SetPath(params, []byte(id), "_meta", mcp.MetaSubscriptionID)
}

// clip bounds a client's text before it is put into a message.
func clip(s string) string { return text.Fit(s, 101) }
