// Package bridge carries questions and notifications of a server to the right agent, across the
// eras of MCP. In the legacy era a server sends requests to its client in the middle of a call; in
// the modern one (2026-07-28) it answers the call with questions, and the client calls again with
// the answers. Rounds and Call translate between the two:
//
//	legacy server, modern agent (Rounds):
//
//	  agent ──tools/call──▶ parked call ──tools/call──▶ server
//	        ◀──input_required── parked ◀──elicitation/create──┤
//	        ──tools/call + answers──▶ resumed ──its result──▶ │
//	        ◀──────────── result ◀────────────────────────────┘
//
//	modern server, legacy agent (Call):
//
//	  agent ──tools/call──▶ Call ──tools/call──▶ server
//	        ◀──elicitation/create── ◀──input_required──┤
//	        ──its result──▶ ──tools/call + answers──▶  │  as many rounds as it takes
//	        ◀──────────── result ◀─────────────────────┘
//
// A Relay is a server as the Handler of its clients: it answers their handshakes and counts their
// subscriptions. It uses the same parts as the gateway: a Mailbox that a server's reader never
// waits for, a Fan that owns the goroutines, the wishes of subscriptions/listen, and the levels of
// log messages.
//
// The package knows Handlers and Peers. It knows no transport, no upstream's
// process and no catalog.
package bridge
