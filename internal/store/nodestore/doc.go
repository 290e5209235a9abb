// Package nodestore opens what a gateway keeps, with this process as one of the nodes that share it:
//
//	store, cluster ─▶ Open ─┬─ store.Store: documents, copies of results, the key
//	                        ├─ cluster.Node: cluster.Solo for the only one
//	                        ├─ ids of sessions that outlast the process
//	                        └─ the stream of events of all gateways, if it is configured
//
// It does not know what the documents are for.
package nodestore
