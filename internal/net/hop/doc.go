// Package hop carries HTTP/1.1 requests in the goroutine of the caller, over plain TCP, or over TLS
// that its owner dials. It knows nothing of MCP.
//
// net/http has two goroutines for each connection, so a request waits for three hand-overs between
// goroutines. For a proxy they are a tenth to a fifth of the processor time of a request.
//
//	RoundTrip ─▶ unusual? ─▶ net/http: other TLS, proxies, upgrades, bodies of unknown length, traces
//	    │
//	    └▶ idle connection, still quiet? ─▶ or dial ─▶ write ─▶ read the head ─▶ body ─▶ idle
//
// http.ReadResponse reads the head and the framing of the body, so both ways read the same bytes
// alike. A connection is used again only if its last response was read to the end and no byte came
// after it.
package hop
