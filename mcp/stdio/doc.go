// Package stdio carries MCP over lines of text: one JSON-RPC message a line.
//
//	weir as a server    agent ──stdin──▶ Stream ──stdout──▶ agent
//	weir as a client    Process: child's stdin ◀── messages ──▶ child's stdout, stderr into a ring
//
// A Process runs in a process group of its own, so that ending it ends what it
// started, too. The package moves messages and knows nothing of what they say;
// mcp.Conn speaks JSON-RPC over it.
package stdio
