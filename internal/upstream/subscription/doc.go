// Package subscription delivers an MCP server's messages outside of calls to sessions. In the other
// direction it sends the server what sessions subscribe to: resources and log levels.
//
//	session ─▶ Registry: who wants to hear what ─▶ Line: one connection ─▶ server
//	session ◀─ Registry ◀─ Line.Notice: whom it concerns ◀────────────────── server
//
// A Line outlives the connections that are made one after the other for it. Sessions of several
// principals may share a Line; Owners knows which task and which elicitation belongs to which of
// them. The package makes no connection itself.
package subscription
