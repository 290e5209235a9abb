package office

import (
	"encoding/json"

	"github.com/weir-mcp/weir/internal/observe/trace"
)

// hubSpans returns how a hub makes spans of calls that it carries.
func hubSpans(t *trace.Tracer) func(computer, tool string, payload json.RawMessage) (json.RawMessage, func(json.RawMessage, string)) {
	return func(computer, tool string, payload json.RawMessage) (json.RawMessage, func(json.RawMessage, string)) {
		call := t.Accept(computer, tool, payload)
		if !call.Sampled() {
			return payload, nil
		}
		return call.Carried(payload), call.End
	}
}
