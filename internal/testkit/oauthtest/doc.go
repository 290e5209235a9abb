// Package oauthtest is an MCP server behind an authorization server, for tests: discovery,
// registration, authorization with PKCE, devices, client credentials, rotating refresh tokens and
// revocation. It checks strictly: a missing demand of a standard is an entry of [Server.Problems].
//
//	GET  /mcp                 401 with a challenge, or "welcome" to a token
//	GET  /authorize           agrees at once and redirects with a code
//	POST /token               code, refresh_token, device_code, client_credentials
//	POST /register, /device, /revoke
//
// A refresh token that is used twice ends all tokens of its sign-in, as RFC 9700 has it.
package oauthtest
