// Package filestore keeps documents in one file of a folder, for one process at a time.
//
//	DIR ─┬─ lock      held by the process that uses the folder
//	     └─ weir.db   the documents, with their revisions and ends (bbolt)
//
// Every change is a transaction of the file and then one of a [store.Memory], which answers reads and
// tells followers. So reads cost no disk, and all documents are in memory: MaxBytes bounds them.
//
// The folder nats of an older build, which ran a NATS server of its own, is imported once.
package filestore
