// Socketio-peer is one side of a small conversation over Socket.IO, for trying the package with other implementations: a server
// with a handful of events, or a client that uses each of them and says how it went.
//
//	go run ./examples/socketio-peer serve -addr 127.0.0.1:3100
//	go run ./examples/socketio-peer dial [-transport polling|websocket|both] http://127.0.0.1:3100
//
//	connect    needs {"token":"secret"}; refused with {"message":"bad token","data":{"code":401}} otherwise
//	hello      from the server, once connected: {"sid"}
//	echo       any arguments, binary ones too: acked with the same
//	ask-me     the server emits "question" with the argument, waits for its ack and passes it on as its own
//	join       a room; acked with true
//	say        a room and a text: "said" with the text to the others in it; acked with true
//	shout      a room and a text: "said" with the text to all in it; acked with true
//	burst      n: emits "tick" 0 … n-1
//	kick       the server disconnects the client from the namespace
//	cut        the server closes the connection, so that the client connects again
package main
