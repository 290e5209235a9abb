// Package link is the way between two processes of a cluster: who is at the other end, small requests, large
// ones, connections of other protocols, and messages.
//
//	cluster.key ──HKDF-SHA256──┬─▶ Ed25519 authority ──▶ a certificate of each node, issued by itself
//	                           └─▶ seal.Key: ids, states and secrets that any node opens
//
//	RoundTrip ─┬─ small ─▶ frames, one exchange at a time on a connection ─┐
//	           ├─ large ─▶ HTTP/1.1 ────────────────────────────────────────┤ TLS 1.3 ─▶ Server ─▶ http.Handler
//	Open ──────┴─ another protocol, after HTTP's 101 ────────────────────────┘               └─▶ TakeOver
//	Messages ─▶ frames over one connection for each direction
//
// A process that has the key is a node: nothing is handed out, stored or renewed by an operator. Keys
// of earlier times are trusted in connections, and nothing new is made with them. A node that lives and cannot be
// dialled is reached through a third one.
//
// All frames have one head, see frame.go. A connection for exchanges carries one at a time, in the goroutine of the
// caller and in one goroutine of the server, so there is no hand-over between goroutines, no window and no order
// between exchanges. The server of net/http has a goroutine and a read for each request, to see a client that leaves:
// here that starts after a moment, and most exchanges are over by then. Text is parsed nowhere. The body of a small
// request is in memory, at most [MaxBody]. The body of a response is of any length and may be a stream: each Flush is
// a frame. Upgrades, trailers and interim responses are for HTTP.
//
// The package is told which nodes there are. It knows neither documents nor sessions, nor what messages are for.
package link
