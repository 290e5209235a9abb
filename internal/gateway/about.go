package gateway

import (
	"github.com/weir-mcp/weir/internal/gateway/dispatch"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
)

// aboutKeys are the arguments in which meta-tools are told what they are about.
var aboutKeys = map[string]string{
	ToolExecute:  "tool_id",
	ToolHydrate:  "tool_id",
	ToolView:     "handle",
	ResourceRead: "resource_id",
	PromptGet:    "prompt_id",
}

// about returns the id or handle that a call is about, as the caller wrote it. It is empty if there
// is none, or if it is no string.
func about(c *dispatch.Call) string {
	key, ok := aboutKeys[c.Verb]
	if !ok {
		return ""
	}
	return rawjson.Text(rawjson.Get(c.Arguments, key))
}

// placed returns e with the path of a call's error (spec/gateway §3.4): the id or handle that the
// call was about, unless the error names a browse path of its own.
func placed(c *dispatch.Call, e *result.Error) *result.Error {
	if e.Path != "" {
		return e
	}
	out := *e // e may be shared by calls that were made as one
	out.Path = about(c)
	return &out
}
