// Package storetest tests implementations of store.Docs, and rooms that keep documents.
//
// [Contract] has the promises of each implementation. [Faults] is a store that fails as real ones
// do: a room that works over it works over all of them.
package storetest
