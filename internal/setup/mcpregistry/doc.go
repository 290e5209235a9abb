// Package mcpregistry asks an MCP Registry (API v0.1) for servers, and plans how weir would run
// one. It asks no person and starts no program.
//
//	words ─▶ Client.Search ─▶ pages ─▶ ranked hits
//	name  ─▶ Client.Latest ─▶ Server ─▶ NewPlan ─▶ Plan.Questions ─▶ Plan.Fill ─▶ an entry of mcpServers
//	            │    ▲
//	            ▼    │ network away
//	           cache on disk
//
// Documents are written by strangers. Their contents are checked and bounded. A version is always
// an exact one, and no shell reads any text. No text of theirs can name a variable or a secret of
// the user: ${ is escaped.
package mcpregistry
