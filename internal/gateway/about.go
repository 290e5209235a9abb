package gateway

import (
	"github.com/weir-mcp/weir/internal/rawjson"

	"github.com/weir-mcp/weir/internal/gateway/result"
)

// aboutKeys are the arguments in which meta-tools are told what they are about.
var aboutKeys = map[string]string{
	ToolExecute:  "tool_id",
	ToolHydrate:  "tool_id",
	ToolView:     "handle",
	ResourceRead: "resource_id",
	PromptGet:    "prompt_id",
}

// about is the id or handle that a call is about, as the caller wrote it. It is
// empty where there is none, or where it is no string.
func (c *metaCall) about() string {
	key, ok := aboutKeys[c.name]
	if !ok {
		return ""
	}
	return rawjson.Text(rawjson.Get(c.arguments, key))
}

// placed returns e with the path of a call's error (spec/gateway §3.4): what
// the call was about, where the error names no browse path of its own.
func (c *metaCall) placed(e *result.Error) *result.Error {
	if e.Path != "" {
		return e
	}
	placed := *e // e may be shared by calls that were made as one
	placed.Path = c.about()
	return &placed
}
