// Package fakeidp is an identity provider for tests: an OAuth 2.0 authorization server that signs
// tokens of any kind, also those that must be refused, and that fails on demand. It signs only with
// the standard library and shares no code with the tested packages.
//
//	test ──Token, Sign, Opaque──▶ tokens
//	client ─▶ /.well-known/…   discovery (RFC 8414, OpenID Connect)
//	       ─▶ ISSUER/jwks      public keys of all signers that are not retired
//	       ─▶ ISSUER/introspect   RFC 7662, for tokens of Opaque
//	       ─▶ ISSUER/authorize, ISSUER/token   code with PKCE, refresh, client credentials
//
// A Provider needs no network: Client returns an http.Client that calls it in memory, with any
// issuer URL, so tests in a testing/synctest bubble can use it. Serve it with httptest for programs
// and set Issuer to the URL of the server first.
package fakeidp
