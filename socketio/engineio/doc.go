// Package engineio implements Engine.IO v4, the layer below Socket.IO. A session carries text and
// binary messages in order in both directions, over WebSocket or HTTP long-polling, and upgrades
// from polling to WebSocket. Server is an http.Handler; Dial opens a session as a client. The
// package knows nothing of Socket.IO and does not interpret messages.
//
//	client                                          server
//	  │ GET ?EIO=4&transport=polling ───────────────▶ │  Authenticate, then Accept gives the session its Receiver
//	  │ ◀──── 0{"sid","upgrades","pingInterval",      │
//	  │        "pingTimeout","maxPayload"}            │
//	  │ GET ?…&sid= (held) ─────────────────────────▶ │  answered with the queue: 4hello ␞ 4world ␞ bAQID
//	  │ POST ?…&sid=   4hello ──────────────────────▶ │  answered "ok"
//	  │                                               │
//	  │ WebSocket ?…&transport=websocket&sid= ──────▶ │
//	  │ 2probe ─────────────────────────────────────▶ │
//	  │ ◀───────────────────────────────────── 3probe │  and 6 to the held GET, so that polling comes to rest
//	  │ 5 ──────────────────────────────────────────▶ │  from here on everything is on the WebSocket
//	  │ ◀─────────── 2 every pingInterval ─────────── │
//	  │ 3 ──────────────────────────────────────────▶ │  within pingTimeout, or the session is closed
//
// A packet is a digit and its data: 0 open, 1 close, 2 ping, 3 pong, 4 message, 5 upgrade, 6 noop.
// A binary message is a bare WebSocket frame, or b and base64 in a poll.
//
// A Frame encodes one message once and may be sent to any number of sessions. Each session has a
// bounded queue: Send never blocks, and a session whose peer does not read is closed with
// ReasonSlowConsumer. An idle session over WebSocket costs one parked goroutine and no buffer.
//
// Inside, a Session is the state machine of one connection: open, ending, ended. It owns a queue
// and a heartbeat, and one carrier moves its packets:
//
//	Send ─▶ Session ─▶ queue ─▶ carrier ─┬─ wsConn         a WebSocket, of a server or a client
//	           │                         ├─ polling        a server's held GET; upgrade makes it a wsConn
//	        heartbeat                    └─ clientPolling  a client's GETs and POSTs; likewise
package engineio
