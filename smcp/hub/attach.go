package hub

import (
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Attach returns a way into the hub for peers of this process; see socketio.ClientConfig.Local. The
// hub trusts them: they need no credentials and no version. The other rules hold for them as for all
// peers. Shutdown ends their connections.
func (h *Hub) Attach() *socketio.Local {
	return h.server.Local(&engineio.Handshake{RemoteAddr: "this process", Value: handshake{trusted: true}})
}
