// Package computer is the Computer of A2C-SMCP. It runs the MCP servers of one machine and offers them
// in an office, over a connection that it opens itself: it listens on no port. Credentials stay on the
// machine: an Agent that reads the configuration gets placeholders.
//
//	config (three forms) ─▶ inputs ─▶ upstream.Manager ─▶ MCP servers, each supervised alone
//	                                        │ listings
//	                                        ▼
//	  hub ◀─▶ member ─▶ events ─▶ tools: alias, forbidden, confirm ─▶ call ─▶ history
//	                       ├─▶ desktop, resources, skills, blobs
//	                       └─▶ channels: raw JSON-RPC to one server (client:mcp)
//
// The core works without a hub: Connect joins one. The package knows nothing of terminals: Options has
// the functions that ask the user for an input or a confirmation.
package computer
