// Package result turns raw results into text for an agent. It maps bytes to bytes. It uses no
// upstream, session or transport, and starts no goroutine.
//
//	raw result ─▶ [Firewall.Shape] ─▶ content blocks as they came, envelope in _meta
//	                   │ too long
//	                   └─▶ Keeper (the caller's store), and in its place a description, a handle, views
//	handle, selector ─▶ [Select] ─▶ the part that the selector names, and how to go on
//	[Error] ─▶ [Error.Result] ─▶ a tool result with isError
//
// A [Redactor] removes secrets from descriptions of a result. The content of a result is data and
// passes unchanged by default.
package result
