package access

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/weir-mcp/weir/internal/identity"
)

// byCertificate identifies a caller by the certificate of its connection (spec/identity §6).
func (s *state) byCertificate(r *http.Request) (*identity.Identity, error) {
	if !s.policy.Certificates || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, unauthorized("this server needs a bearer token: send the header Authorization: Bearer <token>")
	}
	leaf := r.TLS.VerifiedChains[0][0]
	name := leaf.Subject.String()
	switch len(leaf.URIs) {
	case 0:
	case 1:
		name = leaf.URIs[0].String()
	default:
		return nil, unauthorized("the client certificate has %d URIs in its subjectAltName; one names the caller", len(leaf.URIs))
	}
	if name == "" || len(name) > maxSubject {
		return nil, unauthorized("the client certificate has neither a URI in its subjectAltName nor a subject of at most %d bytes", maxSubject)
	}
	id := &identity.Identity{Principal: "cert:" + name, Expires: leaf.NotAfter}
	id.Roles = s.roles(id)
	return id, nil
}

// thumbprintOf returns the x5t#S256 of the connection's client certificate (RFC 8705), "" if there
// is none. The certificate need not be of a known authority: the token vouches for it.
func thumbprintOf(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
