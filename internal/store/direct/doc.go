// Package direct is a store.Bus whose messages to one process go over a connection to that process, as soon as
// there is one. Everything else goes over another Bus.
//
//	Tell, Ask ─┬─ to a process with a connection ─▶ frames ─▶ its listeners
//	           └─ to all others ─▶ the other Bus
//
// A message over the connection is written and read once each. Over a server in between it is written and read
// twice, and wakes four goroutines more.
//
// Messages of one subject arrive in order, or not at all, also where they change from the other Bus to the
// connection: a question over the other Bus comes first, and what is sent before its answer waits.
//
// One case is excepted: when a connection ends, its last messages may be heard after later ones, which go over the
// other Bus. Senders to whom that matters number their messages.
//
// It knows nothing of nodes and of what the messages are for. Its owner dials and accepts the connections.
package direct
