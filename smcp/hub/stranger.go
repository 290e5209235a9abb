package hub

import (
	"net"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// known reports whether a connection needs no probation.
func known(h *engineio.Handshake) bool {
	shake, ok := h.Value.(handshake)
	return ok && shake.known
}

// checkHeader checks the credentials in the headers of a handshake. Valid ones admit the connection
// at once, invalid ones refuse it. Without any, the CONNECT must contain credentials.
func (h *Hub) checkHeader(r *http.Request) (known bool, refusal *engineio.Refusal) {
	h.mu.Lock()
	auth := h.access.auth
	h.mu.Unlock()
	shown := Credentials{Header: r.Header, RemoteAddr: r.RemoteAddr, TLS: r.TLS}
	if key := r.Header.Get(a2c.HeaderKey); key != "" {
		shown.Auth = append(rawjson.AppendString([]byte(`{"key":`), key), '}')
	}
	grant, err := auth.Authenticate(r.Context(), shown)
	if err != nil && shown.hasToken() {
		h.log.Info("a peer was refused at its handshake", "remote", r.RemoteAddr, "reason", err)
		return false, refusalOf(err)
	}
	return err == nil && !grant.NeedsProof, nil
}

// refusalOf returns the answer to a handshake whose token was refused. A token that cannot be checked
// now is not called unknown: clients would throw a good one away.
func refusalOf(err error) *engineio.Refusal {
	kind, _ := mcp.KindOf(err)
	switch kind {
	case mcp.KindIdentityUnavailable:
		return &engineio.Refusal{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"5"}}, Body: []byte(`{"code":4,"message":"` + unavailable + `"}`)}
	case mcp.KindPermissionDenied, mcp.KindInsufficientScope:
		return &engineio.Refusal{Status: http.StatusForbidden, Body: []byte(`{"code":4,"message":"the token in x-api-key or Authorization does not open this hub"}`)}
	}
	return &engineio.Refusal{
		Status: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {`Bearer realm="weir hub", error="invalid_token"`}},
		Body: []byte(`{"code":4,"message":"the token in x-api-key or Authorization is not known to this hub"}`),
	}
}

const unavailable = "the issuer of the token cannot be asked now; try again"

// connectError returns the answer to a CONNECT whose credentials were refused. The text of an error
// that is no ConnectError does not reach the peer.
func connectError(err error) error {
	if kind, _ := mcp.KindOf(err); kind == mcp.KindIdentityUnavailable {
		return &socketio.ConnectError{Message: unavailable}
	}
	return err
}

// hasToken reports whether the headers contain a token. An Authorization header with a scheme other
// than Bearer is for a proxy.
func (c Credentials) hasToken() bool {
	if c.Header.Get("X-Api-Key") != "" {
		return true
	}
	value := c.Header.Get("Authorization")
	scheme, _, several := strings.Cut(value, " ")
	return value != "" && (!several || strings.EqualFold(scheme, "bearer"))
}

func addressOf(h *engineio.Handshake) string { return peerAddress(h.RemoteAddr, h.Header) }

// peerAddress returns the address against which an unknown connection counts. For a proxy on this
// machine, it is the last address that the proxy reports, because the proxy itself saw it. Reports of
// remote proxies could be forged. Their clients share the proxy's address unless they send
// credentials in headers.
func peerAddress(remote string, header func() http.Header) string {
	if host, _, err := net.SplitHostPort(remote); err == nil && net.ParseIP(host).IsLoopback() {
		if values := header().Values("X-Forwarded-For"); len(values) > 0 {
			list := strings.Split(values[len(values)-1], ",")
			if last := strings.TrimSpace(list[len(list)-1]); net.ParseIP(last) != nil {
				return engineio.AddressOf(last)
			}
		}
	}
	return engineio.AddressOf(remote)
}
