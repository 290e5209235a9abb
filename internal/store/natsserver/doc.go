// Package natsserver runs a NATS server with JetStream in this process, for documents in a folder.
//
//	DIR ─┬─ lock     held by the process that uses the folder
//	     └─ nats/    the server's files
//
// The server listens nowhere: connections are made in the process. It knows nothing of documents;
// package natsstore does.
package natsserver
