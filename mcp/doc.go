// Package mcp is the contract of weir's servers and clients: net/http for the Model Context Protocol
// (https://modelcontextprotocol.io/specification/2025-11-25).
//
// A [Handler] answers requests, as an http.Handler does. A [Peer] is the other side of a connection:
// Call sends it a request and returns the result. Transports (mcp/stdio, mcp/streamable, mcp/sse) turn
// bytes into calls of a Handler, and calls of a Peer into bytes. Handlers may stand around other
// Handlers; none knows its transport:
//
//	agent ──transport──▶ Handler ──▶ Handler … ──▶ Peer ──transport──▶ MCP server
//	                 ◀── Request.Peer (what is asked and told during a call) ◀── back
//
// # A server
//
// A server is a Handler for its own methods behind a [Lifecycle], which answers the handshake:
//
//	tools := &mcp.Mux{Methods: map[string]mcp.Handler{"tools/list": list, "tools/call": call}}
//	server := &mcp.Lifecycle{ServerInfo: info, Capabilities: capabilities, Next: tools}
//
// # Params
//
// Params and results are raw JSON from end to end. [Request.Fields] finds name, uri, arguments and
// _meta in one pass for all Handlers of a request; it copies nothing.
//
// # Forwarding
//
// [Forward] hands every message to a Peer. Requests of the server during a call (sampling,
// elicitation, roots) reach the sender of that call through [Back]. ExampleForward runs.
//
// # Promises
//
//   - Messages that belong to a call (progress, log messages, requests of the server) are delivered before that
//     call's response.
//   - Ids of the agent come back byte for byte. Towards an upstream each connection counts its own.
//     The same holds for progress tokens.
//   - If the context of a Call ends, the request is cancelled on the other side
//     (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation).
//     Only the requester can cancel a request.
//   - Params belong to the caller and are valid until Serve or Call returns; a Handler that keeps a
//     part longer clones it. A returned result belongs to the receiver, and the sender does not change
//     it afterwards.
//
// The package knows no transport, no upstream process and no feature of the gateway.
package mcp
