package access

import (
	"errors"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/access/jwk"
)

// VerifySigned checks the signature of a JWT by a JWK set and returns its claims. It takes the algorithms and keys
// that tokens of issuers may have. The caller checks the claims.
func VerifySigned(text string, jwks []byte) (jwt.MapClaims, error) {
	t, err := parseJWT(text)
	if err != nil {
		return nil, err
	}
	keys, err := jwk.ParseSet(jwks)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if (t.kid == "" || k.ID == "" || k.ID == t.kid) && k.Verify(t.alg, t.signed, t.signature) {
			return t.claims, nil
		}
	}
	return nil, errors.New("no key made its signature")
}
