package computers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/agent"
)

// adapter serves the tools of a Computer, or of one of its bundles, over MCP. An upstream talks to
// an adapter if the Computer knows only the protocol's events.
type adapter struct {
	computer *computer
	bundle   string
	conn     *mcp.Conn
}

// adapt starts an adapter and returns the stream to it.
func (c *computer) adapt(bundle string) (mcp.Stream, error) {
	f := c.fleet
	near, far := mcp.Pipe()
	a := &adapter{computer: c, bundle: bundle}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || c.ctx.Err() != nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "computer %q has left", c.name)
	}
	info := rawjson.NewWriter(nil).Object().Key("name").String(c.name).Key("version").String("a2c-smcp").EndObject().Bytes()
	a.conn = mcp.NewConn(far, mcp.ConnOptions{Name: "weir", Drain: time.Millisecond, Logger: f.log, Handler: &mcp.Lifecycle{
		ServerInfo:   info,
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{"listChanged":true}}`) },
		Next: &mcp.Mux{Methods: map[string]mcp.Handler{
			"tools/list": mcp.HandlerFunc(a.list), "tools/call": mcp.HandlerFunc(a.call),
		}},
	}})
	c.mu.Lock()
	c.adapters[a] = struct{}{}
	c.mu.Unlock()
	f.wg.Go(func() {
		select {
		case <-a.conn.Done():
		case <-c.ctx.Done():
		}
		c.mu.Lock()
		delete(c.adapters, a)
		c.mu.Unlock()
		_ = a.conn.Close() // the connection has ended already
	})
	return near, nil
}

// changed notifies the upstream of a change of the tools.
func (a *adapter) changed() {
	if err := a.conn.Notify(a.computer.ctx, "notifications/tools/list_changed", nil); err != nil {
		a.computer.fleet.log.Debug("a change of tools was not told", "computer", a.computer.name, "err", err)
	}
}

func (a *adapter) list(context.Context, *mcp.Request) (json.RawMessage, error) {
	tools := []json.RawMessage{}
	for _, t := range a.computer.toolsOf(a.bundle) {
		def, err := definition(t)
		if err != nil {
			return nil, err
		}
		tools = append(tools, def)
	}
	return smcp.Encode(map[string]any{"tools": tools})
}

func (a *adapter) call(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	p := r.Fields()
	if err := p.Unique("name", "arguments", "_meta"); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	call := agent.ToolCall{
		Computer: a.computer.name, Tool: rawjson.Text(p.Name), Arguments: p.Arguments, Timeout: a.computer.fleet.opts.Timeout,
		Traceparent: rawjson.Text(rawjson.Get(p.RawMeta, "traceparent")), Tracestate: rawjson.Text(rawjson.Get(p.RawMeta, "tracestate")),
		Baggage: rawjson.Text(rawjson.Get(p.RawMeta, "baggage")),
	}
	result, err := a.computer.fleet.client.CallTool(ctx, call)
	if err != nil {
		return nil, agent.CallError(a.computer.name, err)
	}
	return a.normalise(ctx, result), nil
}

// normalise returns a result in the form of MCP: absent members in place of nulls, _meta in place of
// meta, and the data of blobs in place of their handles.
func (a *adapter) normalise(ctx context.Context, result json.RawMessage) json.RawMessage {
	if !rawjson.IsObject(result) {
		return result
	}
	result = withoutNulls(result)
	if meta := rawjson.Get(result, "meta"); meta != nil {
		if rest, err := rawjson.Delete(result, "meta"); err == nil {
			if rawjson.Get(result, "_meta") == nil {
				rest, err = rawjson.Set(rest, "_meta", meta)
			}
			if err == nil {
				result = rest
			}
		}
	}
	content := rawjson.Get(result, "content")
	if !rawjson.IsArray(content) {
		return result
	}
	items := []json.RawMessage{}
	err := rawjson.EachElement(content, func(v []byte) bool {
		items = append(items, a.inlined(ctx, withoutNulls(v)))
		return true
	})
	if err != nil {
		return result
	}
	list, err := smcp.Encode(items)
	if err == nil {
		list, err = rawjson.Set(result, "content", list)
	}
	if err != nil {
		return result
	}
	return list
}

// inlined returns a content item with the data of the blob that its handle names.
func (a *adapter) inlined(ctx context.Context, item json.RawMessage) json.RawMessage {
	handle := rawjson.Text(rawjson.GetPath(item, "_meta", smcp.MetaBlob))
	if handle == "" {
		handle = rawjson.Text(rawjson.GetPath(item, "meta", smcp.MetaBlob))
	}
	if handle == "" {
		return item
	}
	data, _, err := a.computer.fleet.client.ReadBlob(ctx, a.computer.name, handle)
	if err != nil {
		a.computer.fleet.log.Warn("a blob cannot be read and stays a handle", "computer", a.computer.name, "err", err)
		return item
	}
	path := []string{"data"}
	if rawjson.Text(rawjson.Get(item, "type")) == "resource" {
		path = []string{"resource", "blob"}
	}
	out, err := rawjson.SetPath(item, rawjson.Quote(base64.StdEncoding.EncodeToString(data)), path...)
	if err != nil {
		return item
	}
	return out
}
