package streamable

import (
	"net/http"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// EraOf decides the era of a POSTed message as a Server does: modern without a session id and with
// a version of 2026-07-28 or later in the header or the body. For a modern message in a version
// that weir speaks it also checks the headers that repeat the body. The error is of
// mcp.KindHeaderMismatch, or of KindInvalidParams if a relevant key is a duplicate. Other checks
// are left to the server of the message.
//
// Callers use EraOf to forward an HTTP request without a Server.
func EraOf(h http.Header, m *jsonrpc.Message) (modern bool, err error) {
	if h.Get(HeaderSession) != "" {
		return false, nil
	}
	version := h.Get(HeaderVersion)
	if m.Method == "" {
		return mcp.IsModern(version), nil
	}
	meta, name, err := metaOf(&mcp.Request{Method: m.Method, Params: m.Params})
	if err != nil {
		return mcp.IsModern(version), err
	}
	if !mcp.IsModern(version) && !mcp.IsModern(meta.Version) {
		return false, nil
	}
	switch {
	case version == "" && m.Kind() == jsonrpc.Notification:
	case version == "":
		return true, mcp.Errorf(mcp.KindHeaderMismatch, "the header MCP-Protocol-Version is missing: every request of %s and later has it", mcp.V20260728)
	case meta.Version != "" && meta.Version != version:
		return true, mcp.Errorf(mcp.KindHeaderMismatch, "header MCP-Protocol-Version is %q but params._meta[%q] is %q", clip(version), mcp.MetaVersion, clip(meta.Version))
	case !mcp.Supported(version):
		return true, nil // the server, which speaks the version, checks its rules
	}
	return true, checkHeaders(h, m, name)
}
