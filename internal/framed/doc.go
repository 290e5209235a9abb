// Package framed carries small HTTP requests and their responses between two processes as frames, over
// connections that its owner makes. It knows nothing of nodes and of MCP.
//
//	RoundTrip ─▶ idle connection, still quiet? ─▶ or dial ─▶ request ──────────▶ Server ─▶ http.Handler
//	    ◀──────────────────────────────────────────────────── head, data, last ◀───┘
//
// A connection carries one exchange at a time, in the goroutine of the caller and in one goroutine of the
// server, so there is no hand-over between goroutines, no window and no order between exchanges. The server
// of net/http has a goroutine and a read for each request, to see a client that leaves: here that starts
// after a moment, and most exchanges are over by then. Text is parsed nowhere.
//
// A request is one frame, and its body is in memory, at most [MaxBody]. It runs if that frame has arrived
// whole. The body of a response is of any length and may be a stream: each Flush is a frame. Upgrades,
// trailers and interim responses are for HTTP.
package framed
