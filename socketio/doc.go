// Package socketio implements Socket.IO v5 over Engine.IO v4: events with raw JSON arguments,
// acknowledgements in both directions, binary attachments, namespaces, rooms and broadcasts. Server
// is an http.Handler; Client keeps a connection and reconnects. The package knows nothing of the
// meaning of events.
//
//	client                                     server
//	  │ 0/chat,{"token":…} ─────────────────────▶ │  CONNECT: Namespace.Use decides, OnConnect begins
//	  │ ◀────────────── 0/chat,{"sid":…} or 4/chat,{"message":…}
//	  │ 2/chat,7["say","hi"] ───────────────────▶ │  EVENT with ack id 7: the Handler of "say", and its Event.Ack
//	  │ ◀───────────────────────── 3/chat,7["ok"] │  ACK
//	  │ ◀─────────────────── 2/chat,["said","hi"] │  Namespace.To("room").Emit: encoded once, sent to each
//	  │ 51-["file",{"_placeholder":true,"num":0}] │  BINARY_EVENT, followed by its attachments, nothing in between
//	  │ 1/chat, ────────────────────────────────▶ │  DISCONNECT: of this namespace; the connection stays
//
// A packet is <type>[<attachments>-][<namespace>,][<ack id>][<json>]; the namespace "/" is not written.
//
// Arguments are json.RawMessage from end to end: the receiver gets the sender's bytes. Binary data
// travels in attachments, and {"_placeholder":true,"num":N} in an argument says where attachment N
// belongs; see Placeholder and Event.Attachment.
//
// The handlers of one socket run one after the other, in the order of its events, in a goroutine that
// exists only while there are any; OnConcurrent lets the handlers of an event overlap. A handler may
// wait for an ack of the same peer, because the connection is still read. A peer that sends faster
// than its handlers work is slowed down, and a peer that does not read is disconnected.
//
// A client and a server of one process need no transport; see Local.
package socketio
