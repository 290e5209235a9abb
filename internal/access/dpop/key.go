package dpop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/identity"
)

// Alg is the algorithm of a Key.
const Alg = "ES256"

// The header of proofs, and the one of nonces in answers.
const (
	Header      = "DPoP"
	NonceHeader = "DPoP-Nonce"
)

// Key is a private key on P-256 to which tokens are bound. It is safe for concurrent use.
type Key struct {
	private    *ecdsa.PrivateKey
	public     map[string]string
	thumbprint string
}

// NewKey returns a new Key.
func NewKey() *Key {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // cannot happen: the reader does not fail
	}
	k := &Key{}
	k.set(private)
	return k
}

func (k *Key) set(private *ecdsa.PrivateKey) {
	point, err := private.PublicKey.Bytes()
	if err != nil {
		panic(err) // cannot happen: the key is on the curve
	}
	text := base64.RawURLEncoding.EncodeToString
	k.private = private
	k.public = map[string]string{"kty": "EC", "crv": "P-256", "x": text(point[1:33]), "y": text(point[33:])}
	k.thumbprint = jwk.Key{Public: &private.PublicKey}.Thumbprint()
}

// Thumbprint returns the SHA-256 thumbprint of the public key, which stands in tokens as cnf.jkt.
func (k *Key) Thumbprint() string { return k.thumbprint }

// MarshalText returns the private key, which is a secret.
func (k *Key) MarshalText() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, err
	}
	return []byte(base64.RawURLEncoding.EncodeToString(der)), nil
}

// UnmarshalText reads the result of MarshalText.
func (k *Key) UnmarshalText(text []byte) error {
	der, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil {
		return errors.New("the key of a token is not base64url") // without the text, which is a secret
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	private, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok || private.Curve != elliptic.P256() {
		return errors.New("the key of a token is not a private key on P-256")
	}
	k.set(private)
	return nil
}

// String hides the key.
func (*Key) String() string { return "[secret]" }

// GoString hides the key.
func (*Key) GoString() string { return "[secret]" }

// Proof returns the value of the header DPoP of a request. The URL counts without its query and fragment. token is the
// access token of the request, "" for a request to a token endpoint; nonce is the last one of the server, "" without one.
func (k *Key) Proof(method string, at *url.URL, token identity.Secret, nonce string, now time.Time) (string, error) {
	claims := jwt.MapClaims{"jti": rand.Text(), "htm": method, "htu": address(at), "iat": now.Unix()}
	if token != "" {
		claims["ath"] = hashOf(token)
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	proof := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	proof.Header["typ"], proof.Header["jwk"] = typ, k.public
	return proof.SignedString(k.private)
}

// Sign puts a proof on a request.
func (k *Key) Sign(r *http.Request, token identity.Secret, nonce string, now time.Time) error {
	proof, err := k.Proof(r.Method, r.URL, token, nonce, now)
	if err == nil {
		r.Header.Set(Header, proof)
	}
	return err
}

// hashOf returns the claim ath for a token.
func hashOf(token identity.Secret) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// address returns a URL as htu has it.
func address(at *url.URL) string {
	u := url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path, RawPath: at.RawPath}
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
