// Package passthrough puts upstreams on the web as they are: whatever the MCP server
// "files" offers is at /mcps/files/mcp (and /mcp/files/mcp), unchanged, in any
// version that agent and server speak.
//
//	POST, GET, DELETE /mcps/{name}/mcp
//	        │
//	        ├─ no such name ──────────────────────────▶ 404, -32601, the names there are
//	        ├─ over the agent's limits ───────────────▶ 503 or 429 with Retry-After, 413
//	        │
//	        ├─ HTTP upstream of the agent's era,
//	        │  no Judge with a say about it ──────────▶ forward: bytes through, headers checked
//	        │     POST body read whole ▶ envelope ▶ upstream ▶ JSON copied, SSE flushed event by event
//	        │
//	        └─ stdio, SSE, another era, no session,
//	           or judged ─────────────────────────────▶ passthrough: streamable.Server ▶ Handler ▶ Judge ▶ Peer
//	              bridge.Relay: handshake and ping answered here, calls handed on raw
//
// An agent sees no difference between the two ways: the same transcripts are tested over both. An
// error on the way to an upstream has the request's id: unreachable 502 -32603, starting 503 with
// Retry-After as well slow 504 -32003.
//
// In addition, /mcps/{name}/task?taskId=… answers with the state of a task of an agent server, and
// MCPBrowserClient.js is the client for web pages. A request to an agent server may bear a signed
// token (package invocation) that names the principal.
//
// The package knows no process, no configuration and no catalog. It is given upstreams through an
// interface of its own and does not decide who may call: that is package guard. A Judge decides
// which messages may reach a server.
package passthrough
