package hub

import (
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Attach returns an in-process connection to the hub; see socketio.ClientConfig.Local. Its peers are
// trusted: they need no credentials and no version. All other rules apply. Shutdown ends these
// connections.
func (h *Hub) Attach() *socketio.Local {
	return h.server.Local(&engineio.Handshake{RemoteAddr: "this process", Value: handshake{trusted: true}})
}
