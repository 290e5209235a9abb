package access

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
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
	id.Roles = s.policy.roles(id)
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

// binding is what the client of a token has to show in addition to the token. The zero binding is of a bearer token.
type binding struct {
	certificate string // thumbprint of a client certificate (RFC 8705), or ""
	key         string // thumbprint of a DPoP key (RFC 9449), or ""
}

// boundTo returns the binding of a token.
func boundTo(claims map[string]any) (b binding, err error) {
	raw, there := claims["cnf"]
	if !there {
		return b, nil
	}
	confirmation, _ := raw.(map[string]any)
	b.certificate, _ = confirmation["x5t#S256"].(string)
	b.key, _ = confirmation["jkt"].(string)
	if (b.certificate == "") == (b.key == "") || len(confirmation) != 1 {
		return b, errors.New("it is bound (cnf) to something else than one DPoP key (jkt) or one client certificate (x5t#S256)")
	}
	return b, nil
}

// holds checks that the client of a request holds what its token is bound to.
func (s *state) holds(r *http.Request, token string, to binding) error {
	scheme := guard.Scheme(r.Header)
	switch {
	case to.certificate != "" && to.certificate != thumbprintOf(r):
		return unauthorized("the token is bound to another client certificate than that of this connection")
	case to.key == "" && scheme == guard.DPoP:
		return notBound()
	case to == binding{} && s.policy.BoundTokens:
		return guard.BadProof("", "", dpop.Algorithms(), "the token is bound to no key, and auth.dpop.required refuses such tokens; ask the issuer for one with a DPoP proof")
	case to.key == "":
		return nil
	case s.proofs == nil:
		return unauthorized("the token is bound to a DPoP key, and no proof of it can be checked here; ask the issuer for a plain bearer token")
	case scheme != guard.DPoP:
		return guard.BadProof("", "", dpop.Algorithms(), "the token is bound to a DPoP key: send Authorization: DPoP <token>, and a proof in the header DPoP")
	case guard.Rechecked(r.Context()):
		return nil // the proof was for the start of the stream
	}
	_, err := s.proofs.Check(r.Context(), r.Header, dpop.Expect{Method: r.Method, URL: s.urlOf(r), Token: identity.Secret(token), Thumbprint: to.key, Nonce: s.policy.Nonces})
	var refusal *dpop.Refusal
	switch {
	case errors.As(err, &refusal):
		return guard.BadProof(refusal.Code, refusal.Nonce, dpop.Algorithms(), "%s", refusal.Reason)
	case err != nil:
		return mcp.Errorf(mcp.KindIdentityUnavailable, "%v; try again", err)
	}
	return nil
}

func notBound() error {
	return unauthorized("the token is bound to no DPoP key: send it as Authorization: Bearer <token>")
}

// urlOf returns the URL of a request as its client writes it. Without a public URL it has the host of the Host header, which a
// guard has checked.
func (s *state) urlOf(r *http.Request) string {
	base := s.policy.PublicURL
	if base == "" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		base = scheme + "://" + r.Host
	}
	return strings.TrimSuffix(base, "/") + r.URL.EscapedPath()
}
