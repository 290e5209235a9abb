package dataplane

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/dispatch"
)

// Bodies holds the bodies of sync results from agents at /mcps/NAME/mcp, if
// mcpServers.NAME.tables.dispatch is set. Bodies are held per principal, not per session, because
// an agent has a separate session with each server there.
//
//	tool of one server ─▶ OnToolResult ─▶ agent ─▶ OnToolCall ─▶ tool of the same or another
type Bodies struct {
	config func() *config.Config
	taken  func(principal string, args json.RawMessage) (json.RawMessage, bool) // the bodies of calls at /mcp
	nodes  *metatool.BodyNodes                                                  // that have bodies

	mu     sync.Mutex // guards below
	closed bool
	of     map[string]*dispatch.Dispatcher // by principal
}

func newBodies(n *Needs) *Bodies {
	return &Bodies{config: n.Config, taken: n.TakeBody, nodes: RemoteBodies(n.Store.Node()), of: map[string]*dispatch.Dispatcher{}}
}

// WrapFind wraps Router.Find so that the upstreams it finds hold back bodies.
func (b *Bodies) WrapFind(find func(string) (passthrough.Upstream, bool)) func(string) (passthrough.Upstream, bool) {
	return func(name string) (passthrough.Upstream, bool) {
		up, ok := find(name)
		if s, configured := b.config().Server(name); ok && configured && s.Tables.Dispatch {
			return bodyUpstream{up, b}, true
		}
		return up, ok
	}
}

// waiting returns the bodies that wait for a principal's next call.
func (b *Bodies) waiting(principal string) *dispatch.Dispatcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.of[principal]
	if d == nil {
		d = dispatch.New(dispatch.Options{Mark: b.nodes.Mark})
		if b.closed {
			d.Close()
		}
		b.of[principal] = d
	}
	return d
}

// take fills a body into the arguments of a call of a principal at another node.
func (b *Bodies) take(principal string, args json.RawMessage) (filled json.RawMessage, ok bool) {
	b.mu.Lock()
	d := b.of[principal]
	b.mu.Unlock()
	if d == nil {
		return nil, false
	}
	filled, err := d.OnToolCall(args)
	return filled, err == nil
}

// Close discards all bodies.
func (b *Bodies) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, d := range b.of {
		d.Close()
	}
}

// bodyUpstream is an upstream whose sync results reach agents without their bodies. weir must parse
// its calls, so it has no Target for byte-by-byte forwarding.
type bodyUpstream struct {
	passthrough.Upstream
	bodies *Bodies
}

// Target implements passthrough.Endpoint.
func (d bodyUpstream) Target() (passthrough.Target, bool) { return passthrough.Target{}, false }

// Call implements mcp.Peer.
func (d bodyUpstream) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	caller := mcp.Caller(ctx)
	if method != "tools/call" || caller == nil {
		return d.Upstream.Call(ctx, method, params, back)
	}
	waiting := d.bodies.waiting(caller.Principal())
	if arguments := rawjson.Get(params, "arguments"); rawjson.IsObject(arguments) {
		filled, err := d.bodies.nodes.Fill(ctx, caller.Principal(), json.RawMessage(arguments))
		if err == nil {
			filled, err = waiting.OnToolCall(filled)
		}
		if err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: %v", err)
		}
		if params, err = rawjson.Set(params, "arguments", filled); err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: %v", err)
		}
	}
	result, err := d.Upstream.Call(ctx, method, params, back)
	if err != nil {
		return nil, err
	}
	shown, err := waiting.OnToolResult(result)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "tools/call: the tool has run, but its answer is withheld, because it may hold %w", err)
	}
	return shown, nil
}
