package agent

import (
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
)

// encode returns a tool call as encoding/json encodes it. Calls are the most frequent payload, and
// their arguments are JSON already: they are checked and copied once.
func encode(call *smcp.ToolCall) (json.RawMessage, error) {
	if err := rawjson.Valid(call.Params); err != nil {
		return nil, fmt.Errorf("the arguments of tool %q: %w", call.ToolName, err)
	}
	w := rawjson.NewWriter(make([]byte, 0, 256+len(call.Params)+len(call.Tracestate)+len(call.Baggage))).Object()
	optional := func(key, value string) {
		if value != "" {
			w.Key(key).String(value)
		}
	}
	w.Key("agent").String(call.Agent)
	optional("robot_id", call.RobotID)
	w.Key("req_id").String(call.ReqID).Key("computer").String(call.Computer)
	if call.Version != nil {
		w.Key("a2c_version").String(*call.Version)
	}
	optional("traceparent", call.Traceparent)
	optional("tracestate", call.Tracestate)
	optional("baggage", call.Baggage)
	w.Key("tool_name").String(call.ToolName).Key("params").Raw(call.Params).Key("timeout").Float(call.Timeout)
	return w.EndObject().Bytes(), nil
}
