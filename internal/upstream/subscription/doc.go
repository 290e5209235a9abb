// Package subscription tells sessions what an MCP server says outside of any call, and tells the
// server what sessions want to hear: resources, and log levels.
//
//	session ─▶ Registry: who wants to hear what ─▶ Line: one connection ─▶ server
//	session ◀─ Registry ◀─ Line.Notice: whom it concerns ◀────────────────── server
//
// A Line outlives the connections that are made one after the other for it. Sessions of several
// principals may share a Line; Owners knows which task and which elicitation belongs to which of
// them. The package makes no connection itself.
package subscription
