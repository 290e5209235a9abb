// Package attach carries the messages of one MCP client on standard input and output to a running
// gateway and back.
//
//	client ── line ──▶ Run ── the same line ──▶ gateway   (HTTP upgrade of /mcp)
//	       ◀─ line ───     ◀─ the same line ───
//
// Lines are copied as they are; only ids and methods are read, to know which requests wait for an
// answer. If the gateway ends, those get an error, and the next message goes to the gateway that
// Dial finds then. Run repeats the client's handshake there. The package starts no gateway and knows
// no configuration.
package attach
