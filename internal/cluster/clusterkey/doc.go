// Package clusterkey makes of the one secret that the nodes of a cluster share all that they need to
// know one another.
//
//	cluster.key ──HKDF-SHA256──┬─▶ Ed25519 authority ──▶ a certificate of each node, issued by itself
//	                           └─▶ seal.Key: ids, states and secrets that any node opens
//
// A process that has the key is a node: nothing is handed out, stored or renewed by an operator. Keys
// of earlier times are trusted in connections, and nothing new is made with them. The package knows neither
// addresses nor connections.
package clusterkey
