// Package credentials puts the credentials of callers and of the gateway on requests to upstreams: tokens
// of sign-ins, texts that a caller has stored, and tokens that a caller shows. It implements
// upstream.Credentials, and what the pages of package signin ask.
//
//	upstream ─▶ Over ─┬─▶ oauth.Client ─▶ vault      a sign-in at the server
//	                  ├─▶ texts ────────▶ vault      ${user:NAME}
//	                  └─▶ shown                      credentials: forward, token exchange
//
// It knows no listener and no page.
package credentials
