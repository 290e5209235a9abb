package jsonrpc

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// maxNameBytes bounds each member of params, as JSON, that names or describes something: a tool, a resource, a
// page of a list, the client, the request. Handlers copy such members, and sessions keep some of them, outside of the account
// of memory.
const maxNameBytes = 64 << 10

// checkNames returns an error for a member over maxNameBytes. It reads params once, if they are over that, and
// copies nothing.
func checkNames(method string, params []byte) (err error) {
	if len(params) <= maxNameBytes {
		return nil
	}
	_ = rawjson.EachMember(params, func(m rawjson.Member) bool { // handlers refuse what is no object
		if len(m.Value) > maxNameBytes && isName(method, string(m.Key)) {
			err = fmt.Errorf("params.%s has %d bytes, and may have %d", m.Key, len(m.Value), maxNameBytes)
		}
		return err == nil
	})
	return err
}

// isName reports whether maxNameBytes bounds a member of the params of a method.
func isName(method, key string) bool {
	switch key {
	case "name", "uri", "cursor", "taskId", "level", "protocolVersion", "clientInfo", "capabilities", "_meta":
		return true
	case "ref", "argument", "context":
		return method == "completion/complete"
	}
	return false
}
