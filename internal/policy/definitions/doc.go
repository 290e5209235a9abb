// Package definitions guards the definitions of servers: those that differ from weir.lock are hidden from
// clients, and hidden text is removed from them.
//
//	upstream.Manager ─▶ lockfile.Keeper ─▶ Needs.Sink ─▶ /mcp
//	                          ▲      └─▶ Lock.WrapFind ─▶ /mcps/NAME/mcp
//	    weir.lock ─▶ filewatch┘
//
// It forwards what it allows, and keeps no definitions itself.
package definitions
