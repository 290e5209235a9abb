// Package natsserver runs a NATS server with JetStream in this process, for a member of a cluster that
// keeps its documents in a folder, and to read folders that older builds left.
//
//	DIR ─┬─ lock     held by the process that uses the folder
//	     └─ nats/    the server's files
//
// Alone, the server listens nowhere: connections are made in the process. As one of a cluster it
// listens for the others, and for clients on a port of loopback, without which it would open no routes,
// or at an address where clients with the cluster's key connect by TLS. It knows nothing of documents;
// package natsstore does. After its disk was full, it starts the engine anew as soon as the disk takes writes.
package natsserver
