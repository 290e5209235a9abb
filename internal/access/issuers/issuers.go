package issuers

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
)

// Documents returns the URLs at which the metadata of an issuer may be, in the order in which to ask
// (RFC 8414 §3, then OpenID Connect Discovery in both of its forms). It returns nil if the text is not
// the URL of an issuer.
func Documents(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimRight(u.EscapedPath(), "/")
	list := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		list = append(list, origin+path+"/.well-known/openid-configuration")
	}
	return list
}

// Challenge returns the code challenge of a verifier by the method S256 (RFC 7636 §4.2).
func Challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
