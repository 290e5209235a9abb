// Package result turns raw results into what an agent reads. It maps bytes to bytes: it knows no
// upstream, no session and no transport, and starts no goroutine.
//
//	raw result ─▶ [Firewall.Shape] ─▶ content blocks as they came, envelope in _meta
//	                   │ too long
//	                   └─▶ Keeper (the caller's store), and in its place a description, a handle, views
//	handle, selector ─▶ [Select] ─▶ the part that the selector names, and how to go on
//	[Error] ─▶ [Error.Result] ─▶ a tool result with isError
//
// A [Redactor] removes secrets from everything that is said about a result. The content of a result is
// data and passes unless the gateway is configured otherwise.
package result
