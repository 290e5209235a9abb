// Package lockfile keeps the definitions of MCP servers that an operator last accepted, in
// weir.lock next to the configuration. A server that was trusted for its first definitions can
// change them later, and a model obeys the new ones.
//
//	listing ─▶ compared with weir.lock ─▶ Differences ─▶ Findings
//	                        │ first listing: Keeper writes the definitions
//	                        ▼
//	           Keeper: warn ─ the listing goes on, with notes on cards
//	                   hold ─ without the entries that differ
//	                   refuse ─ without any entry, if one differs
//
// The file is JSON, sorted and meant for git. It changes only when a server is listed for the first
// time and when an operator accepts differences. Processes that share the file take turns
// (spec/trust).
//
// The package starts no server and asks no person. Agreements to configuration files of folders are
// another matter: package trust keeps them.
package lockfile
