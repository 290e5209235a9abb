// Package oauthtest is an MCP server behind an authorization server, for tests: discovery,
// registration, authorization with PKCE, devices, client credentials, rotating refresh tokens and
// revocation. It checks strictly: what a standard demands of a client is a [Server.Problems] entry if
// it is missing.
//
//	GET  /mcp                 401 with a challenge, or "welcome" to a token
//	GET  /authorize           agrees at once and redirects with a code
//	POST /token               code, refresh_token, device_code, client_credentials
//	POST /register, /device, /revoke
//
// A refresh token that is used twice ends all tokens of its sign-in, as RFC 9700 has it.
package oauthtest
