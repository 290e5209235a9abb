// Package issuers has what weir knows of every OAuth issuer: where its metadata is, and how a code is
// bound to the client that asked for it. The issuers are those of weir's callers and those of MCP
// servers. It sends no request.
package issuers
