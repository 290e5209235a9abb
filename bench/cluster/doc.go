// Cluster measures the cost of several gateways that act as one, in one process on a NATS server in the same process:
// a call at the node of its session and at another one, a session that another node takes over, writes to the store,
// and memory.
//
//	caller ─┬─▶ node of the session ─────────────────────────▶ server     same
//	        └─▶ another node ─▶ peer link ─▶ node of the session ─▶ server   other
//
// Both are measured in turns, and the ratio is the ratio of their medians in one run. The CPU time of a call is that of
// client, nodes and server, so the difference between the two is the cost of the hop. A second table has Computers,
// which are a process of their own, and agents, at most 1,000. A third one compares the figures with their targets, and
// the end projects them to sizes that are not measured.
package main
