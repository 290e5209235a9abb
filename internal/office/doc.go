// Package office connects a gateway to Computers: through weir's own hub, and through one agent connection to
// each hub elsewhere. It also runs a hub without a gateway.
//
//	Open ─▶ Offices ─┬─ hub.Hub: /socket.io/, /smcp/, hub.listen
//	                 └─ computers.Fleet ─▶ upstream.Manager
//	OpenHub ─▶ Hub: a hub on an address of its own
//
// In a cluster the hubs of all nodes share their offices, and one node joins a hub elsewhere for all. The
// package does not know what the servers of Computers are called for.
package office
