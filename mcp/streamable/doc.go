// Package streamable is MCP over streamable HTTP, both sides, in every protocol version. [Server]
// answers agents, [Client] connects to a server. Bytes of params and results are not decoded.
//
//	legacy (2024-11-05 … 2025-11-25)            modern (2026-07-28)
//
//	POST initialize      ─▶ JSON, Mcp-Session-Id  POST any request ─▶ JSON, or SSE:
//	POST request         ─▶ JSON, or SSE:           Mcp-Method, Mcp-Name, Mcp-Param-*
//	                          notification …        and _meta in every request
//	                          request ◀ POST answer ◀ notification …
//	                          response              ◀ response
//	POST notification    ─▶ 202                   closing the response cancels
//	GET  (Last-Event-ID) ─▶ SSE: what belongs
//	                          to no call
//	DELETE               ─▶ ends the session
//
// The wire itself is in wire.go (headers, encodings) and wire_event.go (server-sent events): pure
// functions and a reader, shared by both sides and by mcp/sse. The package knows nothing of tools,
// upstreams or permissions.
package streamable
