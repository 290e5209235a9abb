// Package egress says where weir's requests may go when a server or an issuer names their URL, and
// connects there. It knows nothing of the requests.
//
//	URL ─▶ Check: https, no private host by its text
//	         └─▶ Transport: the name is resolved once, all of its addresses are checked, one is dialed
//
// URLs of the configuration are free: an operator may name any host. Addresses of cloud metadata
// services are never asked.
package egress
