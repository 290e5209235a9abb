// Package upstream keeps connections to MCP servers. It starts the configured servers, makes the
// handshake and lists their entries. It restarts servers that died, stops idle ones and wakes them
// for a call.
//
// It knows nothing of agents' transports, ids of tools or ranking. Calls come in through an
// [Upstream], which is an mcp.Peer; listings go out to a [Sink].
//
//	mcpserver.Server ──Apply──▶ Manager ──▶ Upstream, one for each server
//	                                        │
//	          calls of all sessions ──▶ shared slot ───▶ link: process or HTTP connection
//	          of a session of its own ▶ slot of it ────▶ link          (per_session)
//	          of a principal ─────────▶ slot of it ────▶ link, here or at the node that has its Place
//	          of modern agents ───────▶ modern slot ───▶ link          (HTTP servers of both eras)
//	                                        │
//	                      lists, list_changed ──▶ Sink ──▶ Live: one snapshot, swapped whole
//
// A slot is supervised by one goroutine:
//
//	        ┌───────────── call ─────────────┐
//	        ▼                                │
//	starting ──handshake──▶ ready ──idle──▶ idle
//	   ▲  │                   │
//	   │  └──error──▶ failed ◀┘ died
//	   └── back-off ────┘
//
// A call that finds its slot starting, or restarting, waits for at most
// [Options].ReadyBudget. A call that was in flight when the connection died
// fails at once, and is made again by itself only if it certainly never reached
// the server (mcp.ErrNotSent).
//
// Connections are keyed by upstream, era and, where the server keeps state for
// each client, session (spec/calls §4). Nothing that one
// upstream does delays another: each has its own goroutines, and all of them
// have ended when [Manager.Close] returns.
package upstream
