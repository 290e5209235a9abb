package upstream

import (
	"encoding/json"
	"net/http"
)

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
