package sessionid

import "strings"

const (
	serverPrefix  = "u1."
	serverPurpose = "server session"
)

// maxID is the length of the longest id that clients and servers must take.
const maxID = 1024

// Wrap returns the id that the principal's client gets in place of the id that a server gave. The
// server is known by its URL: an id is never shown to another one. An id that is too long to be
// sealed stays as it is.
func (e *Endpoint) Wrap(principal, server, id string) string {
	sealed := serverPrefix + e.ids.seal.Seal(serverPurpose, []byte(id), e.serverContext(principal, server))
	if len(sealed) > maxID {
		return id
	}
	return sealed
}

// Unwrap returns the server's own id. ok is false for an id that Wrap has not made for this principal
// and this server.
func (e *Endpoint) Unwrap(principal, server, id string) (own string, ok bool) {
	sealed, ok := strings.CutPrefix(id, serverPrefix)
	if !ok {
		return "", false
	}
	plain, ok := e.ids.seal.Open(serverPurpose, sealed, e.serverContext(principal, server))
	return string(plain), ok
}

// serverContext binds an id to its principal, its server and its endpoint. None of them has a zero
// byte.
func (e *Endpoint) serverContext(principal, server string) []byte {
	return []byte(principal + "\x00" + server + "\x00" + string(e.path))
}
