package sessionid

import (
	"strconv"
	"strings"
	"time"
)

const (
	serverPrefix  = "u2."
	serverPurpose = "server session with birth"
	// The ids of earlier versions do not say when they were made.
	endlessPrefix  = "u1."
	endlessPurpose = "server session"
)

// maxID is the length of the longest id that clients and servers must take.
const maxID = 1024

// Wrap returns the id that the principal's client gets in place of the id that a server gave. The
// server is known by its URL: an id is never shown to another one. The id works for as long as a session
// of weir's own can be adopted. An id that is too long to be sealed stays as it is.
func (e *Endpoint) Wrap(principal, server, id string) string {
	plain := strconv.FormatInt(time.Now().Unix(), 36) + " " + id
	sealed := serverPrefix + e.ids.seal.Seal(serverPurpose, []byte(plain), e.serverContext(principal, server))
	if len(sealed) > maxID {
		return id
	}
	return sealed
}

// Unwrap returns the server's own id. ok is false for an id that Wrap has not made for this principal
// and this server, and for one that Wrap has made too long ago.
func (e *Endpoint) Unwrap(principal, server, id string) (own string, ok bool) {
	if sealed, older := strings.CutPrefix(id, endlessPrefix); older {
		plain, ok := e.ids.seal.Open(endlessPurpose, sealed, e.serverContext(principal, server))
		return string(plain), ok
	}
	sealed, ok := strings.CutPrefix(id, serverPrefix)
	if !ok {
		return "", false
	}
	plain, ok := e.ids.seal.Open(serverPurpose, sealed, e.serverContext(principal, server))
	if !ok {
		return "", false
	}
	made, own, ok := strings.Cut(string(plain), " ")
	born, err := strconv.ParseInt(made, 36, 64)
	if !ok || err != nil || left(state{Born: born}) <= 0 {
		return "", false
	}
	return own, true
}

// serverContext binds an id to its principal, its server and its endpoint. None of them has a zero
// byte.
func (e *Endpoint) serverContext(principal, server string) []byte {
	return []byte(principal + "\x00" + server + "\x00" + string(e.path))
}
