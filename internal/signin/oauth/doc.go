// Package oauth signs weir in at MCP servers: it is a client of OAuth 2.1 as MCP uses it, without a
// browser, a listener and a terminal.
//
//	server ──401, challenge──▶ discovery: resource metadata ▸ authorization server (issuer as text, S256)
//	                             │
//	            client: configured, else a metadata document, else registered once for an issuer
//	                             │
//	  Begin ─▶ URL for a browser ─▶ Finish(callback)  ─┐
//	  Device ─▶ code for a person ─▶ polls             ├─▶ vault ─▶ Token ─▶ Authorization of a request
//	  client_credentials                              ─┘              │
//	                                    past 80 % of its life: refreshed, one at a time
//
// A [Client] keeps its tokens in a vault, which processes may share: a token that another process
// refreshed is adopted. [Client.Transport] puts tokens on requests and takes care of a 401.
//
// All requests go through one guarded HTTP client: https, addresses checked when they are dialed,
// bounded answers. Secrets are of type identity.Secret and stand in no error.
package oauth
