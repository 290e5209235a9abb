// Package simulation runs clusters in one process and in a time of their own, and breaks them by a seed: the real
// code of nodes, sessions, claims, tasks, hubs and quotas over a store and a bus that fail, links that are cut,
// and nodes that are killed.
//
//	seed ─▶ faults ─▶ store, bus, links ─▶ nodes ◀─ work ─▶ what clients saw ─▶ promises
//
// Minutes of such a cluster take a part of a second. A test of processes breaks less in an hour, and one of a
// package does not know the others. There is no product code here.
package simulation
