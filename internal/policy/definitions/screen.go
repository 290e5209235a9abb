package definitions

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// WrapFind wraps Router.Find so that definitions at /mcps/NAME/mcp have no invisible text where
// guards.unicode asks for that. At /mcp, models never read such text.
func WrapFind(now func() *config.Config, find func(string) (passthrough.Upstream, bool)) func(string) (passthrough.Upstream, bool) {
	return func(name string) (passthrough.Upstream, bool) {
		up, ok := find(name)
		if guard := now().Guards.Unicode; ok && (guard == config.UnicodeStrip || guard == config.UnicodeRefuse) {
			return screenedUpstream{up, ScreenOf(now())}, true
		}
		return up, ok
	}
}

// ScreenOf returns what happens to invisible text in answers of servers.
func ScreenOf(c *config.Config) result.Screen {
	switch c.Guards.Unicode {
	case config.UnicodeStrip:
		return result.ScreenStrip
	case config.UnicodeRefuse:
		return result.ScreenRefuse
	}
	return result.ScreenOff
}

// screenedUpstream is an upstream whose definitions lose invisible text, and whose answers pass a
// Screen. weir must parse its messages, so it has no Target for byte-by-byte forwarding.
type screenedUpstream struct {
	passthrough.Upstream
	screen result.Screen
}

// Target implements passthrough.Endpoint.
func (screenedUpstream) Target() (passthrough.Target, bool) { return passthrough.Target{}, false }

// Ready implements passthrough.Greeting.
func (u screenedUpstream) Ready(ctx context.Context) (mcp.Hello, error) {
	return screenHello(u.Upstream.Ready(ctx))
}

// Hello implements passthrough.Greeting.
func (u screenedUpstream) Hello(ctx context.Context, modern bool) (mcp.Hello, error) {
	return screenHello(u.Upstream.Hello(ctx, modern))
}

// Call implements mcp.Peer.
func (u screenedUpstream) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if list, listed := gatedLists[method]; listed {
		result, err := u.Upstream.Call(ctx, method, params, back)
		if err != nil {
			return nil, u.screen.Error(err)
		}
		return screenList(list.key, result)
	}
	return u.screen.Peer(u.Upstream).Call(ctx, method, params, back)
}

// Subscribe implements passthrough.Feed. A notification that readers could take in different ways is left
// out.
func (u screenedUpstream) Subscribe(ctx context.Context, fn func(method string, params json.RawMessage)) (stop func()) {
	return u.Upstream.Subscribe(ctx, func(method string, params json.RawMessage) {
		if params, err := u.screen.Params(params); err == nil {
			fn(method, params)
		}
	})
}

// screenHello removes invisible text from what a server says of itself.
func screenHello(hello mcp.Hello, err error) (mcp.Hello, error) {
	if err != nil {
		return hello, err
	}
	hello.Instructions = visible.Text(hello.Instructions)
	if len(hello.ServerInfo) > 0 {
		hello.ServerInfo = primitive.VisibleTexts(hello.ServerInfo)
	}
	return hello, nil
}

// screenList removes invisible text from the definitions of a list. A list that readers could take in
// different ways is an error.
func screenList(key string, result json.RawMessage) (json.RawMessage, error) {
	list, err := rawjson.Sole(result, key)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "the list cannot be searched for hidden text (guards.unicode): %w", err)
	}
	seen := primitive.VisibleTexts(list)
	if bytes.Equal(seen, list) {
		return result, nil
	}
	return rawjson.Set(result, key, seen)
}
