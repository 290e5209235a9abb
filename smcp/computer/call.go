package computer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
)

// Record is one finished call in the history.
type Record struct {
	Time      time.Time       `json:"timestamp"`
	ReqID     string          `json:"req_id"`
	Agent     string          `json:"agent,omitempty"`
	Server    string          `json:"server,omitempty"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"parameters,omitempty"` // omitted if long
	Duration  time.Duration   `json:"duration_ns"`
	Success   bool            `json:"success"`
	Error     string          `json:"error,omitempty"`
}

// History returns the latest calls, oldest first.
func (c *Computer) History() []Record { return c.ledger.list() }

// Cancel ends a call in flight and reports whether there was one. If the cancellation arrives before
// its call, it also ends a call that starts within a second.
func (c *Computer) Cancel(reqID string) bool { return c.ledger.cancel(reqID) }

// Call calls a tool by its name in any dialect and returns a CallToolResult. Failures, refusals,
// cancellations and timeouts are results with isError, because Agents read results.
func (c *Computer) Call(ctx context.Context, call smcp.ToolCall) json.RawMessage {
	result, err := c.perform(ctx, call)
	if err != nil {
		result = failure(c.inputs, err)
	}
	return c.signed(call.ToolName, call.ReqID, result)
}

// perform makes a call and records it in the history. The error says why no tool answered.
func (c *Computer) perform(ctx context.Context, call smcp.ToolCall) (json.RawMessage, error) {
	start := time.Now()
	rec := Record{Time: start, ReqID: call.ReqID, Agent: smcpAgent(call.Call), Tool: call.ToolName, Arguments: call.Params}
	followed := c.trace.Accept("", call.ToolName, traceMeta(call.Call))
	result, end, err := c.execute(followed.Context(ctx), call, &rec)
	defer end() // after record, so that a late cancellation is recognised as late
	followed.End(result, failureType(err))
	rec.Duration = time.Since(start)
	switch {
	case err != nil:
		rec.Error = c.inputs.redact(plain(err))
	case string(rawjson.Get(result, "isError")) == "true":
		rec.Error = "the tool answered with an error"
	default:
		rec.Success = true
	}
	c.ledger.record(rec)
	return result, err
}

func smcpAgent(call smcp.Call) string {
	if call.Agent != "" {
		return call.Agent
	}
	return call.RobotID
}

// signed adds the Computer's signature to a result if the Computer has a key.
func (c *Computer) signed(tool, reqID string, result json.RawMessage) json.RawMessage {
	if c.o.Key == nil {
		return result
	}
	out, err := a2c.SignResult(c.o.Key, c.o.Name, tool, reqID, result)
	if err != nil {
		c.log.Error("a result was not signed", "tool", tool, "err", err)
		return result
	}
	return out
}

// execute runs a call under its timeout and its cancellation. The caller must call end.
func (c *Computer) execute(ctx context.Context, call smcp.ToolCall, rec *Record) (_ json.RawMessage, end func(), _ error) {
	timeout := time.Duration(call.Timeout * float64(time.Second))
	if timeout <= 0 || call.Timeout > 1e6 {
		timeout = c.o.CallTimeout
	}
	ctx, end, err := c.ledger.begin(ctx, call.ReqID, timeout)
	if err != nil {
		return nil, func() {}, err
	}
	t, err := c.catalog.find(ctx, call.ToolName)
	if err != nil {
		return nil, end, callError(ctx, err, timeout)
	}
	rec.Server, rec.Tool = t.server.Name, t.name
	result, err := c.run(ctx, t, call)
	if err != nil {
		return nil, end, callError(ctx, err, timeout)
	}
	result, err = c.blobs.detach(result)
	return result, end, err
}

// run asks for the confirmation and then calls the MCP server.
func (c *Computer) run(ctx context.Context, t *tool, call smcp.ToolCall) (json.RawMessage, error) {
	args := call.Params
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if !rawjson.IsObject(args) {
		return nil, faultf(smcp.CodeInvalid, "params must be an object")
	}
	if err := c.confirm(ctx, t, smcpAgent(call.Call), call.ReqID, args); err != nil {
		return nil, err
	}
	up, ok := c.manager.Upstream(t.server.Name)
	if !ok {
		return nil, faultf(smcp.CodeNotFound, "MCP server %q is switched off", t.server.Name)
	}
	meta := traceMeta(call.Call)
	params := rawjson.NewWriter(make([]byte, 0, len(t.name)+len(args)+len(meta)+64)).Object()
	params.Key("name").String(t.name)
	params.Key("arguments").Raw(args)
	if meta != nil {
		params.Key("_meta").Raw(meta)
	}
	return up.Call(ctx, "tools/call", params.EndObject().Bytes(), nil)
}

// confirm asks a person about a call that needs confirmation.
func (c *Computer) confirm(ctx context.Context, t *tool, agent, reqID string, args json.RawMessage) error {
	if cmp.Or(t.meta.AutoApply.decide(t.raw), c.o.AutoApply.decide(t.raw)) == ApplyAll {
		return nil
	}
	if c.o.Confirm == nil {
		return faultf(smcp.CodeForbidden, "tool %q of MCP server %q needs a confirmation and nobody can be asked on this Computer: its owner can set servers.%s.default_tool_meta.auto_apply to true, or to read_only for tools that say so of themselves, or start it with --auto-apply",
			t.name, t.server.Name, t.server.Name)
	}
	asking, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	ok, err := c.o.Confirm(asking, Confirmation{ReqID: reqID, Agent: agent, Server: t.server.Name, Tool: t.name, Arguments: args})
	if asking.Err() != nil && ctx.Err() == nil {
		return expired("nobody has confirmed tool %q within %s", t.name, confirmTime)
	}
	if err != nil {
		return fmt.Errorf("the confirmation of tool %q failed: %w", t.name, err)
	}
	if !ok {
		return faultf(smcp.CodeForbidden, "the owner of the Computer refused the call of tool %q", t.name)
	}
	return nil
}

// readToolCall decodes a client:tool_call. Its params stay raw, because they are only passed on.
func readToolCall(raw json.RawMessage) (smcp.ToolCall, error) {
	var f struct{ agent, robot, reqID, computer, tool, params, timeout, parent, state, baggage, version []byte }
	if !rawjson.IsObject(raw) || rawjson.Scan(raw,
		rawjson.Key("agent", &f.agent), rawjson.Key("robot_id", &f.robot), rawjson.Key("req_id", &f.reqID),
		rawjson.Key("computer", &f.computer), rawjson.Key("tool_name", &f.tool), rawjson.Key("params", &f.params),
		rawjson.Key("timeout", &f.timeout), rawjson.Key("traceparent", &f.parent), rawjson.Key("tracestate", &f.state),
		rawjson.Key("baggage", &f.baggage), rawjson.Key(a2c.QueryVersion, &f.version)) != nil {
		return smcp.ToolCall{}, a2c.ErrPayload
	}
	call := smcp.ToolCall{
		Call: smcp.Call{
			Agent: rawjson.Text(f.agent), RobotID: rawjson.Text(f.robot), ReqID: rawjson.Text(f.reqID), Computer: rawjson.Text(f.computer),
			Traceparent: rawjson.Text(f.parent), Tracestate: rawjson.Text(f.state), Baggage: rawjson.Text(f.baggage),
		},
		ToolName: rawjson.Text(f.tool), Params: f.params,
	}
	if len(f.version) > 0 && f.version[0] == '"' {
		version := rawjson.Text(f.version)
		call.Version = &version
	}
	if len(f.timeout) > 0 && string(f.timeout) != "null" {
		var err error
		if call.Timeout, err = strconv.ParseFloat(string(f.timeout), 64); err != nil || call.Timeout < 0 {
			return smcp.ToolCall{}, a2c.ErrPayload
		}
	}
	if call.ToolName == "" {
		return smcp.ToolCall{}, a2c.ErrPayload
	}
	return call, nil
}

// Bounds of the values passed on with a call.
const (
	maxTraceparent = 512
	maxTracestate  = 4096
	maxBaggage     = 8192
)

// traceMeta returns the trace context and baggage of a call as _meta for an MCP server, or nil if it
// has none.
func traceMeta(call smcp.Call) json.RawMessage {
	traced := call.Traceparent != "" && len(call.Traceparent) <= maxTraceparent && len(call.Tracestate) <= maxTracestate
	carries := call.Baggage != "" && len(call.Baggage) <= maxBaggage
	if !traced && !carries {
		return nil
	}
	out := rawjson.NewWriter(nil).Object()
	if traced {
		out.Key("traceparent").String(call.Traceparent)
		if call.Tracestate != "" {
			out.Key("tracestate").String(call.Tracestate)
		}
	}
	if carries {
		out.Key("baggage").String(call.Baggage)
	}
	return out.EndObject().Bytes()
}
