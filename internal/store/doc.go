// Package store says how weir keeps what must outlast its process: in small documents that are
// changed by compare-and-set.
//
//	a room ─▶ Docs ─┬─▶ Memory            in this process, with a bound
//	                ├─▶ filestore.Store   in one file, for one process: a Memory that writes first
//	                └─▶ natsstore.Docs    in a NATS that runs elsewhere, for several processes
//
// A document has a key, a value and a revision. A change names the revision that it has seen, and
// fails with [ErrConflict] if the document has changed since. There is no other primitive: each
// promise that several parties could break at the same time stands in one document.
//
// In addition, a [Bus] carries messages between the processes of a cluster, and [Blobs] keeps what is
// too large for a document.
//
// The package knows none of the contents. A room that keeps something declares the part of [Docs]
// that it needs, and package app hands it over. A gateway has one [Store], which package backend
// opens. The contract test of package storetest runs over all implementations.
package store
