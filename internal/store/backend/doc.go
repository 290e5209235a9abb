// Package backend opens the store that a configuration names.
//
//	memory                ─▶ store.Memory       ends with the process
//	file:DIR              ─▶ filestore.Store    weir.db and the key in one folder
//	nats://…  tls://…     ─▶ natsstore.Docs     documents, messages and copies; a NATS that does not answer yet is
//	                                            asked again in the background, and the store comes later
//
// Callers get a [store.Store] and do not ask which one it is.
package backend
