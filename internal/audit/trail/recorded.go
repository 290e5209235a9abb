package trail

import (
	"encoding/json"
	"io"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// recordedCall is a request of /mcps/NAME/mcp in the audit log. It is for one goroutine.
type recordedCall struct {
	open   *calls.Open
	digest *audit.Digest // of a result in pieces
}

var _ passthrough.Recorded = (*recordedCall)(nil)

// maxLook is the longest result that is searched for isError.
const maxLook = 64 << 10

// Ended implements passthrough.Recorded.
func (c *recordedCall) Ended(result json.RawMessage, err error) {
	failed := err == nil && len(result) <= maxLook && string(rawjson.Get(result, "isError")) == "true"
	c.open.End(calls.Outcome(err, failed), result)
}

// Pieces implements passthrough.Recorded.
func (c *recordedCall) Pieces() io.Writer {
	if c.digest = c.open.Digest(); c.digest == nil {
		return nil
	}
	return c.digest
}

// Passed implements passthrough.Recorded.
func (c *recordedCall) Passed() {
	digest := ""
	if c.digest != nil {
		digest = c.digest.String()
	}
	c.open.EndDigest(calls.OK, digest)
}

// unread is the outcome of a call whose answer was handed on unread.
const unread = "unread"

// Unread implements passthrough.Recorded.
func (c *recordedCall) Unread() { c.open.EndDigest(unread, "") }

// unambiguous returns an error for params in which servers could read another name than the log has:
// a member stands twice, or in another case.
func unambiguous(r *mcp.Request) error {
	var keys []string
	switch r.Method {
	case "tools/call", "prompts/get":
		keys = []string{"name", "arguments"}
	case "resources/read", "resources/subscribe":
		keys = []string{"uri"}
	}
	if len(keys) == 0 || !rawjson.IsObject(r.Params) {
		return nil
	}
	var found [2][]byte
	fields := make([]rawjson.Field, 0, len(found))
	for i, key := range keys {
		fields = append(fields, rawjson.Key(key, &found[i]))
	}
	err := rawjson.Scan(r.Params, fields...)
	if err == nil {
		err = rawjson.CheckCase(r.Params, keys...)
	}
	if err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "the params of %s can be read in two ways, and the audit log must have the one that counts: %v", r.Method, err)
	}
	return nil
}
