package upstream

import "github.com/weir-mcp/weir/internal/memory"

// defaultMaxResponse bounds one message of a server whose configuration says
// nothing of it, such as one that a Computer offers.
const defaultMaxResponse = 64 << 20

// maxResponse bounds one message of the server, in bytes.
func (srv *server) maxResponse() int64 {
	if srv.cfg.MaxResponse > 0 {
		return int64(srv.cfg.MaxResponse)
	}
	return defaultMaxResponse
}

// maxResponseKey is what errors call the setting of maxResponse: nothing where it
// has none.
func (srv *server) maxResponseKey() string {
	if srv.cfg.MaxResponse > 0 {
		return "mcpServers." + srv.name + ".max_response"
	}
	return ""
}

// room is where messages of the server are counted.
func (srv *server) room() *memory.Account { return srv.opts.Memory.Account(srv.who) }

// mayBeLarge reports whether results of a method are left in their files, as long
// as the caller needs them. All others, such as lists, are the caller's to keep.
func mayBeLarge(method string) bool {
	switch method {
	case "tools/call", "resources/read", "prompts/get", "tasks/result":
		return true
	}
	return false
}
