// Package web serves an app.Engine over HTTP: it routes paths, asks guards for Host, Origin and
// token, and adds the page, the console and the data plane's offers. What the answers say is the
// Engine's.
//
//	Listen ─▶ Listener ─▶ Server ─▶ guard ─▶ mux ─▶ transports, router, hub, console, /healthz …
//
// Server draws the paths. A Server without a Listener is a plain http.Handler.
package web
