package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// WrapFind wraps Router.Find so that definitions that are held at /mcp are also held at
// /mcps/NAME/mcp.
func (d *Lock) WrapFind(find func(string) (passthrough.Upstream, bool)) func(string) (passthrough.Upstream, bool) {
	return func(name string) (passthrough.Upstream, bool) {
		up, ok := find(name)
		if ok && d.guards(name) {
			return gatedUpstream{up, d, name}, true
		}
		return up, ok
	}
}

// guards reports whether the lock may hide something of a name of the router.
func (d *Lock) guards(name string) bool {
	if u, ok := d.needs.Servers().Upstream(name); ok {
		return d.Gate(u.Config().Name) != nil
	}
	for _, p := range d.needs.Places(name) {
		if d.Gate(p.Upstream) != nil {
			return true
		}
	}
	return false
}

// settleWait is how long a client waits for the first listing of a server, which is compared with the
// lock before the client sees it.
const settleWait = 10 * time.Second

// gatedUpstream is an upstream whose clients get only definitions that are as weir.lock has them.
// weir must parse its messages, so it has no Target for byte-by-byte forwarding.
type gatedUpstream struct {
	passthrough.Upstream
	lock *Lock
	name string
}

var _ passthrough.Upstream = gatedUpstream{}

// Target implements passthrough.Endpoint.
func (u gatedUpstream) Target() (passthrough.Target, bool) { return passthrough.Target{}, false }

// Ready implements passthrough.Greeting.
func (u gatedUpstream) Ready(ctx context.Context) (mcp.Hello, error) {
	hello, err := u.Upstream.Ready(ctx)
	return u.greet(ctx, hello, err)
}

// Hello implements passthrough.Greeting.
func (u gatedUpstream) Hello(ctx context.Context, modern bool) (mcp.Hello, error) {
	hello, err := u.Upstream.Hello(ctx, modern)
	return u.greet(ctx, hello, err)
}

// greet removes the texts of a handshake that differ from the lock.
func (u gatedUpstream) greet(ctx context.Context, hello mcp.Hello, err error) (mcp.Hello, error) {
	if err != nil {
		return hello, err
	}
	gates, err := u.gates(ctx)
	if err != nil {
		return mcp.Hello{}, err
	}
	for _, g := range gates {
		if g.ShowsAbout() {
			continue
		}
		hello.Instructions = ""
		for _, key := range []string{"title", "description"} {
			if short, err := rawjson.Delete(hello.ServerInfo, key); err == nil {
				hello.ServerInfo = short
			}
		}
	}
	return hello, nil
}

// SubscribeResource implements passthrough.Feed.
func (u gatedUpstream) SubscribeResource(ctx context.Context, uri string, fn func(json.RawMessage)) (stop func(), err error) {
	gates, err := u.gates(ctx)
	if err != nil {
		return nil, err
	}
	if !gates.allowURI(uri) {
		return nil, unknownResource(uri)
	}
	return u.Upstream.SubscribeResource(ctx, uri, fn)
}

// Call implements mcp.Peer.
func (u gatedUpstream) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	gates, err := u.gates(ctx)
	if err == nil {
		err = gates.admit(method, params)
	}
	if err != nil {
		return nil, err
	}
	result, err := u.Upstream.Call(ctx, method, params, back)
	if list, listed := gatedLists[method]; listed && err == nil {
		return gates.filter(list.kind, list.key, result)
	}
	return result, err
}

// Notify implements mcp.Peer. A request without an id would reach the server ungated.
func (u gatedUpstream) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if !strings.HasPrefix(method, "notifications/") {
		return mcp.Errorf(mcp.KindInvalidRequest, "%q is a request and needs an id", method)
	}
	return u.Upstream.Notify(ctx, method, params)
}

// gatedLists are the lists with definitions that the lock covers, and the one of resources, which a
// server that is refused has none of.
var gatedLists = map[string]struct {
	kind primitive.Kind
	key  string
}{
	"tools/list":               {primitive.KindTool, "tools"},
	"prompts/list":             {primitive.KindPrompt, "prompts"},
	"resources/templates/list": {primitive.KindTemplate, "resourceTemplates"},
	"resources/list":           {primitive.KindResource, "resources"},
}

// gates are the gates of the servers that a name at /mcps stands for.
type gates []gate

type gate struct {
	*lockfile.Gate
	prefix string // of the tools of the server; "" if the name stands for this server only
}

// gates waits until the servers have been listed, within bounds, and returns their gates. It returns
// an error if nothing may be asked of them.
func (u gatedUpstream) gates(ctx context.Context) (gates, error) {
	places := u.lock.needs.Places(u.name)
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	var all gates
	var refused error
	open := len(places) == 0
	for _, p := range places {
		g, err := u.lock.gate(ctx, p.Upstream)
		if err != nil {
			refused = err
		} else {
			open = true
		}
		all = append(all, gate{g, p.Prefix})
	}
	if !open {
		return nil, refused
	}
	return all, nil
}

// gate waits until a server has been listed, for the caller of ctx or for all of them, and returns its
// gate. The error says why nothing may be asked of the server.
func (d *Lock) gate(ctx context.Context, server string) (*lockfile.Gate, error) {
	up, ok := d.needs.Servers().Upstream(server)
	if !ok || !up.Config().ListsPerCaller() {
		g := d.Gate(server)
		if ok && g != nil && g.Open() != nil {
			select {
			case <-up.Settled():
			case <-ctx.Done():
			}
			g = d.Gate(server)
		}
		return g, g.Open()
	}
	g := d.GateOf(server, nil)
	if g == nil {
		return nil, nil
	}
	l := d.needs.Servers().OwnListing(ctx, server)
	if l == nil { // why there is none is what a connection of the caller fails with
		if _, err := up.Hello(ctx, false); err != nil {
			return g, err
		}
		return g, g.Open()
	}
	g = d.GateOf(server, l)
	return g, g.Open()
}

// admit returns an error for a request about a definition that is held: the one that servers answer
// with for a name that they do not know. A method that weir does not know is refused.
func (s gates) admit(method string, params json.RawMessage) error {
	switch method {
	case "tools/call":
		name, err := soleText(params, "name")
		if err != nil || s.allow(primitive.KindTool, name) {
			return err
		}
		return mcp.Errorf(mcp.KindInvalidParams, "Unknown tool: %s", name)
	case "prompts/get":
		return s.admitPrompt(params)
	case "resources/read", "resources/subscribe":
		uri, err := soleText(params, "uri")
		if err != nil || s.allowURI(uri) {
			return err
		}
		return unknownResource(uri)
	case "completion/complete":
		ref, err := sole(params, "ref")
		if err != nil {
			return err
		}
		return s.admitReference(ref)
	}
	if _, lists := gatedLists[method]; lists || slices.Contains(harmless, method) {
		return nil
	}
	return mcp.Errorf(mcp.KindMethodNotFound, "%q is not forwarded: trust (weir.lock) covers this server, and weir does not know what the method reads or runs", text.Line(method, 80))
}

// harmless lists methods that neither reveal nor use a definition: session methods, and task methods, whose
// tasks came from calls that were already admitted. weir answers initialize, server/discover and
// subscriptions/listen itself.
var harmless = []string{
	"ping", "logging/setLevel", "resources/unsubscribe", "tasks/list", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel",
}

// admitPrompt returns an error for a prompt that is held. named has its name.
func (s gates) admitPrompt(named []byte) error {
	name, err := soleText(named, "name")
	if err != nil || s.allow(primitive.KindPrompt, name) {
		return err
	}
	return mcp.Errorf(mcp.KindInvalidParams, "Unknown prompt: %s", name)
}

// admitReference returns an error for a completion of what is held, and of what weir does not know.
func (s gates) admitReference(ref []byte) error {
	kind, err := soleText(ref, "type")
	if err != nil {
		return err
	}
	switch kind {
	case "ref/prompt":
		return s.admitPrompt(ref)
	case "ref/resource":
		uri, err := soleText(ref, "uri")
		if err != nil || s.allow(primitive.KindTemplate, uri) || s.allowURI(uri) {
			return err
		}
		return unknownResource(uri)
	}
	return mcp.Errorf(mcp.KindInvalidParams, "Unknown reference: %s", kind)
}

// sole returns a member of params, nil if there is none. It returns an error if servers may read
// another one.
func sole(params []byte, key string) ([]byte, error) {
	value, err := rawjson.Sole(params, key)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %w", err)
	}
	return value, nil
}

// soleText is sole for a text. Another value is an error.
func soleText(params []byte, key string) (string, error) {
	value, err := sole(params, key)
	if err != nil {
		return "", err
	}
	text, err := rawjson.String(value)
	if err != nil {
		return "", mcp.Errorf(mcp.KindInvalidParams, "params: %s must be a string", key)
	}
	return text, nil
}

func unknownResource(uri string) error {
	return mcp.Errorf(mcp.KindResourceNotFound, "Unknown resource: %s", uri)
}

// allow reports whether a tool, prompt or template may be used.
func (s gates) allow(kind primitive.Kind, name string) bool {
	return s.some(kind, name, func(g *lockfile.Gate, own string) bool { return g.Allows(kind, own) })
}

// some reports whether a server that may have a name answers yes, and none of them holds the name:
// names of prompts and templates are shared where a name of the router stands for several servers.
func (s gates) some(kind primitive.Kind, name string, yes func(g *lockfile.Gate, own string) bool) bool {
	allowed := false
	for _, g := range s {
		own, ours := name, true
		if kind == primitive.KindTool {
			own, ours = strings.CutPrefix(name, g.prefix)
		}
		switch {
		case !ours:
		case g.Holds(kind, own):
			return false
		case yes(g.Gate, own):
			allowed = true
		}
	}
	return allowed
}

// allowURI reports whether a resource may be read, in each way to write its URI.
func (s gates) allowURI(uri string) bool {
	for _, spelling := range append(dispatch.Spellings(uri), dispatch.Spelling{URI: uri}) {
		for _, g := range s {
			if !g.AllowsURI(spelling.URI) {
				return false
			}
		}
	}
	return dispatch.Unclear(uri) == ""
}

// filter returns the result of a list without the definitions that are held.
func (s gates) filter(kind primitive.Kind, key string, result json.RawMessage) (json.RawMessage, error) {
	list, err := rawjson.Sole(result, key)
	if err == nil && list != nil && !rawjson.IsArray(list) {
		err = fmt.Errorf("%s is not an array", key)
	}
	if err != nil {
		return nil, incomparable(err)
	}
	if list == nil {
		return result, nil
	}
	out, dropped := []byte{'['}, false
	err = rawjson.EachElement(list, func(raw []byte) bool {
		shown := s.shows(kind, raw)
		if !shown {
			dropped = true
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, raw...)
		return true
	})
	if err == nil && dropped {
		result, err = rawjson.Set(result, key, append(out, ']'))
	}
	if err != nil {
		return nil, incomparable(err)
	}
	return result, nil
}

func incomparable(err error) error {
	return mcp.Errorf(mcp.KindUpstreamProtocol, "the list cannot be compared with weir.lock: %w", err)
}

// shows reports whether a list may have a definition. One whose name readers may read in different
// ways may not be in it.
func (s gates) shows(kind primitive.Kind, raw []byte) bool {
	member := "name"
	switch kind {
	case primitive.KindTemplate:
		member = "uriTemplate"
	case primitive.KindResource:
		member = "uri"
	}
	name, err := soleText(raw, member)
	if err != nil {
		return false
	}
	if kind == primitive.KindResource {
		return s.allowURI(name)
	}
	return s.some(kind, name, func(g *lockfile.Gate, own string) bool {
		if own == name {
			return g.Shows(kind, raw)
		}
		renamed, err := rawjson.Set(raw, member, rawjson.Quote(own))
		return err == nil && g.Shows(kind, renamed)
	})
}
