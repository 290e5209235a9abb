// Package sessionid makes ids of legacy sessions from which the sessions can be made again, after a
// restart of weir.
//
//	handshake ─▶ Name ─▶ Mcp-Session-Id: w1.ID.SEAL
//	                                         └─ endpoint, principal, version, client info and capabilities, birth
//	restart … next request ─▶ Adopt ─▶ the same session, with the ID that it had
//	DELETE ─▶ End ─▶ document s.HASH: the id is never adopted again
//
// An id that a server gave to a client of weir is sealed in the same way, so that weir knows after a
// restart whose it is ([Endpoint.Wrap]).
//
// A session costs no document while it lives. An id is sealed with the key of the store, so that
// only weir can make one, and it is adopted for its principal alone, at its endpoint.
//
// The package knows no transport: package app hands its endpoints over.
package sessionid
