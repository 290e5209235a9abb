// Package clients knows the MCP clients of a machine: where each keeps its MCP servers, in which
// form, and how weir takes their place. One table, [All], holds what differs between them.
//
//	Detect ─▶ files ─▶ Servers ─▶ Make ─▶ Plan ─▶ ToWeir ─▶ mcpServers of weir.yaml
//	                                       │
//	                     the client's file ◀── Connect, Disconnect: edits for package splice
//
// [Detect] looks for files and reads none. [Servers] turns a client's entries into neutral ones,
// with variables as weir writes them. [Make] joins entries for the same server, gives each a name
// that weir accepts, and takes the secrets out. [Client.Connect] plans the edits that put weir into
// the client's file and its own servers behind weir.
//
// The package asks no person, writes no file and starts no program. The machine reaches it through
// an [Environment], so tests see every system from any other.
package clients
