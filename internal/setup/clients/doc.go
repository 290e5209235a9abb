// Package clients knows the MCP clients of a machine: the places and forms of their lists of MCP
// servers, and how weir takes the place of these servers. One table, [All], holds the differences
// between clients.
//
//	Detect ─▶ files ─▶ Servers ─▶ Make ─▶ Plan ─▶ ToWeir ─▶ mcpServers of weir.yaml
//	                                       │
//	                     the client's file ◀── Connect, Disconnect: edits for package splice
//
// [Detect] looks for files and reads none. [Servers] turns a client's entries into neutral ones,
// with variables as weir writes them. [Make] joins entries for the same server, gives each a name
// that weir accepts, and extracts the secrets. [Client.Connect] plans the edits that put weir into
// the client's file and the client's servers behind weir.
//
// The package asks no person, writes no file and starts no program. It sees the machine through an
// [Environment], so tests on one system cover every system.
package clients
