// Package address decides the kind of a network address, and which addresses weir connects to when
// a peer names them.
//
// An operator may name any server. A peer may not: an agent that registers a URL, or a server that
// returns one, could otherwise read services that only this machine reaches, such as the metadata
// service of a cloud.
//
//	host of a peer's URL ─▶ on the list, or the peer's own address?
//	                     ─▶ resolve once ─▶ every address fit to be dialled?
//	                     ─▶ connect to that very address
//
// [Loopback] and its siblings are the only place that decides which addresses are this machine. A
// [Rule] says which addresses one peer may name, and a [Dialer] keeps the rule for each connection.
// The package knows nothing of HTTP but headers, and nothing of MCP.
package address
