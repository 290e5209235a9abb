package upstream

import "github.com/weir-mcp/weir/internal/limit/memory"

// defaultMaxResponse bounds one message of a server without a configured bound, such as one that a
// Computer offers.
const defaultMaxResponse = 64 << 20

// maxResponse bounds one message of the server, in bytes.
func (srv *server) maxResponse() int64 {
	if srv.cfg.MaxResponse > 0 {
		return int64(srv.cfg.MaxResponse)
	}
	return defaultMaxResponse
}

// maxResponseKey returns the name of the setting of maxResponse in errors, "" if there is none.
func (srv *server) maxResponseKey() string {
	if srv.cfg.MaxResponse > 0 {
		return "mcpServers." + srv.name + ".max_response"
	}
	return ""
}

// room returns the account that counts messages of the server.
func (srv *server) room() *memory.Account { return srv.opts.Memory.Account(srv.who) }

// mayBeLarge reports whether large results of a method stay in files for as long as the caller
// needs them. The caller keeps all others, such as lists.
func mayBeLarge(method string) bool {
	switch method {
	case "tools/call", "resources/read", "prompts/get", "tasks/result", "tasks/get":
		return true
	}
	return false
}
