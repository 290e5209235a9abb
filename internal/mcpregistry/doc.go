// Package mcpregistry asks an MCP Registry (API v0.1) for servers, and plans how weir would run
// one. It asks no person and starts no program.
//
//	words ─▶ Client.Search ─▶ pages ─▶ ranked hits
//	name  ─▶ Client.Latest ─▶ Server ─▶ NewPlan ─▶ Plan.Questions ─▶ Plan.Fill ─▶ an entry of mcpServers
//	            │    ▲
//	            ▼    │ network away
//	           cache on disk
//
// Documents are written by strangers. What they say is checked and bounded, a version is always an
// exact one, no shell reads any of it, and no text of theirs can name a variable or a secret of the
// user: ${ is escaped.
package mcpregistry
