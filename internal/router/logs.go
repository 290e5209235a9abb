package router

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// setLevel takes the wish of a legacy session. The upstream is asked for the most
// verbose level that any session wants, and each gets its own part of it.
func (p *passthrough) setLevel(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	hello, err := p.hello(ctx)
	if err != nil {
		return nil, err
	}
	if rawjson.Get(hello.Capabilities, "logging") == nil {
		return nil, mcp.MethodNotFound(r.Method)
	}
	level := rawjson.Text(rawjson.Get(r.Params, "level"))
	if mcp.LogSeverity(level) < 0 {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%q is no log level", clip(level))
	}
	if agentOf(r.Session) == nil {
		return json.RawMessage("{}"), nil // the session ends with this request
	}
	if err := p.levels.Set(ctx, p.up, level); err != nil {
		return nil, failedToReach(err)
	}
	r.Session.SetLogLevel(level)
	return json.RawMessage("{}"), nil
}

// levelOf is what a request gets. A legacy upstream is asked for what a modern
// request wants.
func (p *passthrough) levelOf(ctx context.Context, r *mcp.Request) (string, error) {
	return p.levels.OfCall(ctx, r, p.up, func(err error) {
		p.log.Debug("an upstream's log level could not be set", "upstream", p.name, "err", err)
	})
}
