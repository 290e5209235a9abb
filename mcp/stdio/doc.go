// Package stdio carries MCP over lines of text: one JSON-RPC message a line.
//
//	weir as a server    agent ──stdin──▶ Stream ──stdout──▶ agent
//	weir as a client    Process: child's stdin ◀── messages ──▶ child's stdout, stderr into a ring
//
// A Process runs in a process group of its own, so that its descendants end with it. The package
// moves messages and does not read their contents; mcp.Conn speaks JSON-RPC over it.
package stdio
