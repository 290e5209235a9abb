// Package sessionid makes ids of legacy sessions from which the sessions can be made again, after a
// restart of weir.
//
//	handshake ─▶ Name ─▶ Mcp-Session-Id: w1.ID.SEAL
//	                                         └─ endpoint, principal, version, client info and capabilities, birth
//	restart … next request ─▶ Adopt ─▶ the same session, with the ID that it had
//	logging/setLevel, resources/subscribe ─▶ Keeper ─▶ record in s.PRINCIPAL.SLOT ─▶ Restore makes them again
//	DELETE ─▶ End ─▶ record in s.PRINCIPAL.SLOT: the id is never adopted again
//
// An id that a server gave to a client of weir is sealed in the same way, so that weir knows after a
// restart whose it is ([Endpoint.Wrap]).
//
// In a cluster the id is w1.INC.ID.SEAL and names the node that has the session.
//
// A session costs no record while it lives, unless it sets a log level or subscribes to resources. The
// documents of a principal are bounded: where one is full, its oldest sessions count as ended. An id
// is sealed with the key of the store, so that only weir can make one, and it is adopted only for its
// principal, at its endpoint.
//
// The package knows no transport: package app hands its endpoints over.
package sessionid
