// Package signin is the pages on which people sign in at servers with a browser (spec/signin §7).
//
//	GET /connect/NAME ──▶ who is it? ── a token, pasted once ──▶ POST ─┐
//	                      (one local principal: not asked)            ▼
//	                                             a button ──▶ POST ──▶ Begin ──▶ authorization server
//	"signed in" ◀── Finish ◀── GET /connect/callback?code=…&state=… ◀─────────────────┘
//
// The address of a page has no state: a person who is sent there signs in for themselves. A cookie
// binds each sign-in to the browser that started it. The pages have no scripts and stand in no
// frame.
//
// The package knows neither OAuth nor upstreams; see [SignIns].
package signin
