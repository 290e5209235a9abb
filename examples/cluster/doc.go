// Cluster shows what several weirs promise that act as one, on one machine. It starts them, a NATS server, a balancer
// and clients, kills one weir after the other, and prints what each promise gave.
//
//	go run ./examples/cluster -kill 10s -for 60s
//
//	MCP clients, an Agent, Computers ─▶ balancer ─┬─▶ n0 ─┬─▶ MCP server "counter", which counts the runs of each call
//	                                              ├─▶ n1 ─┤
//	                                              └─▶ n2 ─┴─▶ NATS server
//
// The weirs and the NATS server are processes. The balancer, the clients and the MCP server are in this one.
// Exit codes: 0, all promises were kept; 1, one was not; 2, it could not be measured.
package main
