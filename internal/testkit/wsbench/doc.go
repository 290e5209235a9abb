// Package wsbench is the baseline of benchmarks of protocols over WebSocket, for tests only: a bare echo server of
// gorilla/websocket, the least that a round trip can cost with that library.
//
//	b ─▶ Compare ─┬─▶ ours   ─ frame ─▶ server under test ─▶ answer     b.N times
//	              └─▶ theirs ─ frame ─▶ Echo ─▶ the same frame          b.N times ─▶ x_baseline
//
// InTurn does the same for calls that are more than one round trip, with the CPU time of both.
//
// It knows nothing of the protocols themselves: the caller has done the handshake before.
package wsbench
