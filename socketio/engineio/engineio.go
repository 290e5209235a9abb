// Package engineio speaks Engine.IO v4, the layer below Socket.IO: a session of messages, text or binary, in order, both
// ways, over WebSocket or over HTTP long-polling, with a way up from the second to the first. It has both sides: Server is an
// http.Handler, Dial is a client. It knows nothing of Socket.IO and nothing of what the messages mean.
//
//	client                                          server
//	  │ GET ?EIO=4&transport=polling ───────────────▶ │  Authenticate, then Accept gives the session its Receiver
//	  │ ◀──── 0{"sid","upgrades","pingInterval",      │
//	  │        "pingTimeout","maxPayload"}            │
//	  │ GET ?…&sid= (held) ─────────────────────────▶ │  answered with whatever is queued: 4hello ␞ 4world ␞ bAQID
//	  │ POST ?…&sid=   4hello ──────────────────────▶ │  answered "ok"
//	  │                                               │
//	  │ WebSocket ?…&transport=websocket&sid= ──────▶ │
//	  │ 2probe ─────────────────────────────────────▶ │
//	  │ ◀───────────────────────────────────── 3probe │  and 6 to the held GET, so that polling comes to rest
//	  │ 5 ──────────────────────────────────────────▶ │  from here on everything is on the WebSocket
//	  │ ◀─────────── 2 every pingInterval ─────────── │
//	  │ 3 ──────────────────────────────────────────▶ │  within pingTimeout, or the session is closed
//
// Packets are a digit and their data: 0 open, 1 close, 2 ping, 3 pong, 4 message, 5 upgrade, 6 noop. Binary messages are bare
// WebSocket frames, or b and base64 in a poll.
//
// A message is encoded once, as a Frame, and a Frame may be sent to any number of sessions. Each session has a bounded queue:
// Send never blocks, and a session whose peer does not keep up is closed with ReasonSlowConsumer. An idle session over
// WebSocket costs one parked goroutine and no buffers worth naming.
package engineio

// The packet types, as they stand on the wire.
const (
	packetOpen    = '0'
	packetClose   = '1'
	packetPing    = '2'
	packetPong    = '3'
	packetMessage = '4'
	packetUpgrade = '5'
	packetNoop    = '6'
)

// protocolVersion is the value of the query parameter EIO that both sides speak.
const protocolVersion = "4"

const probe = "probe"
