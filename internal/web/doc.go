// Package web serves a gateway.Gateway over HTTP. It routes paths, checks Host, Origin and tokens, and
// adds the start page, the console and offers of the data plane. The Gateway provides the content of
// responses.
//
//	Listen ─▶ Listener ─▶ Server ─▶ guard ─▶ mux ─▶ transports, router, hub, console, /healthz …
//
// Server draws the paths. A Server without a Listener is a plain http.Handler.
package web
