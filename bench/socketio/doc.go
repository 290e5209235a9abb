//go:build unix

// Socketio shows the speed of package socketio next to the reference server of JavaScript: both run as processes of their own,
// one after the other, under the same load from the same raw client, in one run.
//
//	                 ┌─▶ this program with -serve      (package socketio)
//	raw client ──────┤
//	(this program)   └─▶ node reference.mjs            (socket.io from npm, of interop/node_modules)
//
//	echo       connections × messages in flight, each answered by an ack: messages/s and messages per CPU second of the server
//	broadcast  one event to a room of 1,000: deliveries/s
//	memory     private memory per idle connection, of 5,000
//
//	go run ./bench/socketio [-seconds 3] [-rounds 3] [-only echo|broadcast|memory]
//
// The two take turns for some rounds, and the best of each counts: other programs on the machine cost both something, but not
// the same at every moment.
//
// The client speaks WebSocket by hand, so that it costs little of the cores it shares with the server. It knows nothing of
// weir.
package main
