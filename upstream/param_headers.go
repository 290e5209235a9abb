package upstream

import (
	"encoding/json"
	"net/http"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// callable refuses a call of a tool whose schema asks for impossible headers: over
// modern HTTP, no client may call it (2026-07-28).
func (u *Upstream) callable(method string, params json.RawMessage) error {
	barred := u.barred.Load()
	if method != "tools/call" || barred == nil || len(*barred) == 0 {
		return nil
	}
	tool := rawjson.Text(rawjson.Get(params, "name"))
	if err := (*barred)[tool]; err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "%s: the tool %q cannot be called: %v", u.who, tool, err)
	}
	return nil
}

// CheckParamHeaders compares the Mcp-Param-* headers that a modern agent sent
// with a tools/call to what its params say. A mismatch is an error of
// mcp.KindHeaderMismatch (2026-07-28). A tool that has not been listed has no
// such headers.
func (u *Upstream) CheckParamHeaders(tool string, params json.RawMessage, h http.Header) error {
	tools := u.headers.Load()
	if tools == nil {
		return nil
	}
	return (*tools)[tool].Check(h, params)
}
