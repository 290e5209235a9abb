// Package natsserver runs a NATS server with JetStream in this process, for documents in a folder.
//
//	DIR ─┬─ lock     held by the process that uses the folder
//	     └─ nats/    the server's files
//
// Alone, the server listens nowhere: connections are made in the process. As one of a cluster it
// listens for the others, and on a port of loopback, without which it would open no routes. It knows
// nothing of documents; package natsstore does.
package natsserver
