package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
)

// adapter is an MCP server made of the tools of a Computer, or of one bundle:
// what an upstream talks to where the Computer knows the protocol's events only.
type adapter struct {
	f      *Fleet
	h      *hosted
	bundle string
	conn   *mcp.Conn
}

// adapt starts an adapter and returns the stream to it.
func (f *Fleet) adapt(h *hosted, bundle string) (mcp.Stream, error) {
	near, far := mcp.Pipe()
	a := &adapter{f: f, h: h, bundle: bundle}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || h.ctx.Err() != nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "computer %q has left", h.name)
	}
	info := append(append(json.RawMessage(`{"name":`), rawjson.Quote(h.name)...), `,"version":"a2c-smcp"}`...)
	a.conn = mcp.NewConn(far, mcp.ConnOptions{Name: "weir", Drain: time.Millisecond, Logger: f.log, Handler: &mcp.Lifecycle{
		ServerInfo:   info,
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{"listChanged":true}}`) },
		Next: &mcp.Mux{Methods: map[string]mcp.Handler{
			"tools/list": mcp.HandlerFunc(a.list), "tools/call": mcp.HandlerFunc(a.call),
		}},
	}})
	h.mu.Lock()
	h.adapters[a] = struct{}{}
	h.mu.Unlock()
	f.wg.Go(func() {
		select {
		case <-a.conn.Done():
		case <-h.ctx.Done():
		}
		h.mu.Lock()
		delete(h.adapters, a)
		h.mu.Unlock()
		_ = a.conn.Close() // says nothing new
	})
	return near, nil
}

// changed says that the tools are others.
func (a *adapter) changed() {
	if err := a.conn.Notify(a.h.ctx, "notifications/tools/list_changed", nil); err != nil {
		a.f.log.Debug("a change of tools was not told", "computer", a.h.name, "err", err)
	}
}

func (a *adapter) list(context.Context, *mcp.Request) (json.RawMessage, error) {
	tools := []json.RawMessage{}
	for _, t := range a.h.offered(a.bundle) {
		def, err := definition(t)
		if err != nil {
			return nil, err
		}
		tools = append(tools, def)
	}
	return smcp.Encode(map[string]any{"tools": tools})
}

func (a *adapter) call(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	var out [3][]byte
	if err := rawjson.Fields(r.Params, []string{"name", "arguments", "_meta"}, out[:]); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	call := ToolCall{
		Computer: a.h.name, Tool: rawjson.Text(out[0]), Arguments: out[1], Timeout: a.f.o.Timeout,
		Traceparent: rawjson.Text(rawjson.Get(out[2], "traceparent")), Tracestate: rawjson.Text(rawjson.Get(out[2], "tracestate")),
		Baggage: rawjson.Text(rawjson.Get(out[2], "baggage")),
	}
	result, err := a.f.client.CallTool(ctx, call)
	if err != nil {
		return nil, told(a.h.name, err)
	}
	return a.normal(ctx, result), nil
}

// normal makes a result what MCP says it is: no nulls for what is absent, _meta
// for meta, and blobs in their places.
func (a *adapter) normal(ctx context.Context, result json.RawMessage) json.RawMessage {
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
		items = append(items, a.whole(ctx, withoutNulls(v)))
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

// whole puts a blob back into a content that has only its handle.
func (a *adapter) whole(ctx context.Context, item json.RawMessage) json.RawMessage {
	handle := rawjson.Text(rawjson.GetPath(item, "_meta", smcp.MetaBlob))
	if handle == "" {
		handle = rawjson.Text(rawjson.GetPath(item, "meta", smcp.MetaBlob))
	}
	if handle == "" {
		return item
	}
	data, _, err := a.f.client.ReadBlob(ctx, a.h.name, handle)
	if err != nil {
		a.f.log.Warn("a blob cannot be read and stays a handle", "computer", a.h.name, "err", err)
		return item
	}
	where := []string{"data"}
	if rawjson.Text(rawjson.Get(item, "type")) == "resource" {
		where = []string{"resource", "blob"}
	}
	out, err := rawjson.SetPath(item, rawjson.Quote(base64.StdEncoding.EncodeToString(data)), where...)
	if err != nil {
		return item
	}
	return out
}
