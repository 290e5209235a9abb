// Package guard decides who may talk to an HTTP server, before anything of a
// request but its headers is read:
//
//	request ─▶ Host? ─▶ Origin? ─▶ preflight? ─▶ bearer token? ─▶ next handler, with Principal(ctx)
//	             │         │           │              │
//	            403       403         204            401 + WWW-Authenticate
//
// A request with two Origin or two Authorization headers is refused before that (400).
//
// The Host check stops DNS rebinding: a name that an attacker lets point to
// 127.0.0.1 reaches a local server, but with the attacker's name in the Host
// header. The Origin check stops pages of other sites from using the reader's
// browser to call the server. Programs send no Origin and pass it.
//
// The package knows how errors look in MCP and nothing else of it: no method,
// no session.
package guard
