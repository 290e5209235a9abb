// Package authserver is an OAuth 2.1 authorization server for one resource: the gateway that it runs in.
// MCP clients register themselves or show a metadata document. People sign in at the provider of their company,
// or with an account of the configuration. The tokens open this gateway and nothing else.
//
//	client ─▶ authorize ─▶ sign-in at the provider, or with a password ─▶ consent ─▶ code, back to the client
//	client ─▶ token ─┬─ a code              ─▶ a grant, its access token and its first refresh token
//	                 ├─ a refresh token     ─▶ the person is looked up again, and both tokens are new
//	                 └─ a client's own key  ─▶ an access token without a person
//	grant ─ ends by revocation, by logout, by a refresh token that is used again, or when it has expired
//
// A browser carries its sign-in, sealed in a cookie, until the person is known: strangers take no room.
// After that, everything stands in the store, sealed, so any node of a cluster can answer the next request.
// The package knows neither the configuration nor MCP. It refuses in the form of RFC 6749 §5.2.
package authserver
