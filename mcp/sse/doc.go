// Package sse is MCP over HTTP with server-sent events, the transport of 2024-11-05, both sides.
// [Server] answers agents that still use it. [ClientStream] connects to servers that have no other
// transport.
//
//	GET /sse  ─────────────────────────▶
//	◀─ event: endpoint  /messages?sessionId=…
//	POST /messages?sessionId=…  request ▶   202
//	◀─ event: message   response
//	…                                       the connection ends with the GET
//
// Either side is an mcp.Stream below an mcp.Conn, which knows requests from responses. Events have
// the form of package streamable. The package knows nothing of tools, upstreams or permissions.
package sse
