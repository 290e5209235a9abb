package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// commonStart is how most results of tools start.
var commonStart = []byte(`{"content":[`)

// WithContent adds the content that every version of MCP requires in the result of a tools/call: an
// empty list if the server omitted it. Without it many clients fail. A result of another kind (a
// task, a question to the client) has no content and passes unchanged.
func WithContent(result json.RawMessage) json.RawMessage {
	if bytes.HasPrefix(result, commonStart) || !rawjson.IsObject(result) {
		return result
	}
	var content, kind, task, asks []byte
	if rawjson.Scan(result, rawjson.Key("content", &content), rawjson.Key("resultType", &kind), rawjson.Key("task", &task), rawjson.Key("inputRequests", &asks)) != nil {
		return result
	}
	if content != nil && string(content) != "null" || kind != nil && rawjson.Text(kind) != "complete" || task != nil || asks != nil {
		return result
	}
	out, err := rawjson.Set(result, "content", []byte("[]"))
	if err != nil {
		return result
	}
	return out
}
