// Package issuers has weir's knowledge of every OAuth issuer: where its metadata is, and how a code
// is bound to the client that asked for it. The issuers are the issuers of weir's callers and of MCP
// servers. It sends no request.
package issuers
