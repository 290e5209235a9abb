// Package access finds out who makes a request: it checks static tokens, JSON Web Tokens of
// configured issuers, opaque tokens by introspection, and client certificates.
//
//	token ─▶ static? ─▶ JWT? ─▶ cache ─▶ header ─▶ issuer by iss ─▶ key by kid ─▶ signature ─▶ claims ─┐
//	              │        └──▶ introspection (RFC 7662), for other tokens ─────────────────────────────┤
//	no token ─▶ certificate                                                                            ▼
//	                                                              audience of the path ─▶ *identity.Identity
//
// Its promises are in docs/spec/identity.md. It fetches only from issuers of the configuration,
// never from a URL that a token names. It knows nothing of MCP except its errors, and decides
// nothing about calls: roles and groups are handed on.
package access
