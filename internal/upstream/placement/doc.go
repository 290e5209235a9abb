// Package placement decides at which node of a cluster the program of a server runs, and carries the requests of
// the other nodes to it.
//
// A server with scope: cluster runs at one node, the holder of a strict claim. The other nodes have an upstream at
// the holder's peer link in its place:
//
//	claim u.HASH ─▶ the upstream of the configuration ◀─ router without policy, quotas and audit ◀─ peerServers
//	held by another node ─▶ an upstream at http://INC.node.invalid/peer/v1/servers/NAME ─▶ peer link ─▶ peerServers
//
// So a call meets policy, quotas, audit and firewall once, at the node that the agent asked. The holder ends the
// server's program before it gives up the claim, and within seconds when it has lost the claim: another node gets
// it 5 seconds after that at the earliest.
//
// The program of one principal runs at one node as well, for as long as it is used; see Programs.
package placement
