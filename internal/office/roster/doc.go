// Package roster keeps who is in an office of A2C-SMCP: one document for each office, so that the nodes of
// a cluster see the same members in the same order.
//
//	Join, Leave, Drop ─▶ Office (a value) ─▶ hub of one process
//	      │
//	      └─ compare-and-set of o.HASH ─▶ store ─ Follow ─▶ hubs of all nodes with members in it
//
// An [Office] is a pure value: its methods do no I/O and know neither connections nor time. A hub of one
// process changes its value in place, and [Shared] runs the same methods on the document. Shared carries
// the messages between hubs as well: calls to a Computer, events of an office. It numbers them, so that
// one which is lost on the way is found, and its call ends.
//
// The package knows nothing of dialects, payloads and credentials.
package roster
