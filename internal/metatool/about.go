package metatool

import (
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
)

// aboutKeys names, for each meta-tool, the argument that identifies its subject.
var aboutKeys = map[string]string{
	ToolExecute:  "tool_id",
	ToolHydrate:  "tool_id",
	ToolView:     "handle",
	ResourceRead: "resource_id",
	PromptGet:    "prompt_id",
}

// about returns the id or handle in the arguments of a call, as the caller wrote it. It is empty if
// there is none, if it is not a string, or if it is larger than any id.
func about(c *dispatch.Call) string {
	key, ok := aboutKeys[c.Verb]
	if !ok {
		return ""
	}
	raw := rawjson.Get(c.Arguments, key)
	if len(raw) > maxOwnArguments {
		return ""
	}
	return rawjson.Text(raw)
}

// placed returns e with a path (spec/gateway §3.4): the id or handle of the call, and says whether
// the tool has run. An error that names a browse path keeps it.
func placed(c *dispatch.Call, e *result.Error) *result.Error {
	if e.Path != "" && e.Ran == c.Ran {
		return e
	}
	out := *e // coalesced calls may share e
	out.Ran = e.Ran || c.Ran
	if out.Path == "" {
		out.Path = about(c)
	}
	return &out
}
