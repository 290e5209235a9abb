package router

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// noLogs is a level above all others.
const noLogs = "none"

// wanted reports whether a log message is for somebody who wants this level and
// those more severe; "" wants all.
func wanted(level string, params json.RawMessage) bool {
	switch level {
	case "":
		return true
	case noLogs:
		return false
	}
	n := mcp.LogSeverity(rawjson.Text(rawjson.Get(params, "level")))
	return n < 0 || n >= mcp.LogSeverity(level)
}

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
	if err := p.up.SetLogLevel(ctx, level); err != nil {
		return nil, failedToReach(err)
	}
	p.leveled.Store(true)
	r.Session.SetLogLevel(level)
	return json.RawMessage("{}"), nil
}

// levelOf is what a legacy session gets. One that has no wish gets what the
// upstream sends by itself; once others have set its level, nobody knows what
// that would be.
func (p *passthrough) levelOf(s *mcp.Session) string {
	level := s.LogLevel()
	if level == "" && p.leveled.Load() {
		return "info"
	}
	return level
}

// callLevels is the key of the most verbose level that the calls of a modern
// principal have wanted.
type callLevels struct{}

// levelOfCall reads which log messages a modern request wants; without a level it
// wants none. A legacy upstream is asked for them.
func (p *passthrough) levelOfCall(ctx context.Context, r *mcp.Request) (string, error) {
	meta, err := mcp.ParseMeta(r.Params)
	switch {
	case err != nil:
		return "", err
	case meta.LogLevel == "":
		return noLogs, nil
	case mcp.LogSeverity(meta.LogLevel) < 0:
		return "", mcp.Errorf(mcp.KindInvalidParams, "params._meta[%q]: %q is no log level", mcp.MetaLogLevel, clip(meta.LogLevel))
	}
	asked, _ := r.Session.Value(callLevels{}, func() any { return new(levelMark) }).(*levelMark)
	if asked == nil || !asked.lower(meta.LogLevel) {
		return meta.LogLevel, nil
	}
	p.leveled.Store(true)
	if err := p.up.SetLogLevel(ctx, meta.LogLevel); err != nil {
		p.log.Debug("an upstream's log level could not be set", "upstream", p.name, "err", err)
	}
	return meta.LogLevel, nil
}
