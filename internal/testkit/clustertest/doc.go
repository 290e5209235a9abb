// Package clustertest runs clusters of real weir processes for tests, and breaks them.
//
//	test ─▶ balancer ─▶ node n0 ─▶ link n0→n1 ─▶ node n1
//	                       └──────▶ store link of n0 ─▶ NATS server
//
// Nodes and the NATS server are processes of their own: they are killed, stopped and continued by signals.
// All that nodes send to each other and to NATS goes through links, which a test cuts, stalls or opens in one
// direction only. The balancer takes the nodes in turn, as balancers do that know nothing of sessions.
//
// The package runs only on Linux: it needs a loopback address for each node, and finds out from /proc which
// node makes a connection. It knows nothing of promises: tests state the promises.
package clustertest
