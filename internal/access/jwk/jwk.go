// Package jwk reads public keys of JSON Web Keys (RFC 7517), and says which signatures each may verify.
package jwk

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds of keys (spec/identity §2).
const (
	minRSA  = 2048
	maxRSA  = 8192
	maxKeys = 128
)

// Algorithms are those that a signature may have. HMAC is not among them: every program that checks
// such a signature could make it.
var Algorithms = map[string]jwt.SigningMethod{
	"RS256": jwt.SigningMethodRS256, "RS384": jwt.SigningMethodRS384, "RS512": jwt.SigningMethodRS512,
	"PS256": jwt.SigningMethodPS256, "PS384": jwt.SigningMethodPS384, "PS512": jwt.SigningMethodPS512,
	"ES256": jwt.SigningMethodES256, "ES384": jwt.SigningMethodES384, "ES512": jwt.SigningMethodES512,
	"EdDSA": jwt.SigningMethodEdDSA,
}

// Key is a public key.
type Key struct {
	ID     string
	Alg    string // the only algorithm of the key; "": each that fits its type
	Public crypto.PublicKey
}

// Verify reports whether the key made the signature of a text with an algorithm.
func (k Key) Verify(alg, signed string, signature []byte) bool {
	return k.Fits(alg) && Algorithms[alg].Verify(signed, signature, k.Public) == nil
}

// Fits reports whether a key may verify an algorithm: the type of the key decides, never the token.
func (k Key) Fits(alg string) bool {
	if k.Alg != "" && k.Alg != alg {
		return false
	}
	switch key := k.Public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return alg == "ES256"
		case elliptic.P384():
			return alg == "ES384"
		case elliptic.P521():
			return alg == "ES512"
		}
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// ParseSet reads a set of JSON Web Keys. It leaves out keys that do not verify signatures, and
// unusable ones. A set without any usable key is an error.
func ParseSet(raw []byte) ([]Key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, errors.New("the key set is not JSON")
	}
	if len(set.Keys) > maxKeys {
		return nil, errors.New("the key set has too many keys")
	}
	var keys []Key
	for _, raw := range set.Keys {
		if key, ok := parse(raw); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no usable key")
	}
	return keys, nil
}

// parse reads one JSON Web Key. ok is false for a key that verifies no signatures, and for an unusable one.
func parse(raw json.RawMessage) (key Key, ok bool) {
	fields, err := DecodeObject(raw)
	if err != nil {
		return Key{}, false
	}
	return Of(fields)
}

// Of is a key that is decoded already; see ParseSet.
func Of(jwk map[string]any) (key Key, ok bool) {
	var none Key
	text := func(name string) string { s, _ := jwk[name].(string); return s }
	number := func(name string) []byte { b, _ := Base64.DecodeString(text(name)); return b }
	if use := text("use"); use != "" && use != "sig" {
		return none, false
	}
	if operations, there := jwk["key_ops"]; there && !verifies(operations) {
		return none, false
	}
	out := Key{ID: text("kid"), Alg: text("alg")}
	switch text("kty") {
	case "RSA":
		n, e := new(big.Int).SetBytes(number("n")), new(big.Int).SetBytes(number("e"))
		if n.BitLen() < minRSA || n.BitLen() > maxRSA || e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
			return none, false
		}
		out.Public = &rsa.PublicKey{N: n, E: int(e.Int64())}
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[text("crv")]
		if curve == nil {
			return none, false
		}
		size, x, y := (curve.Params().BitSize+7)/8, number("x"), number("y")
		if len(x) != size || len(y) != size {
			return none, false
		}
		point := append(append([]byte{4}, x...), y...)
		key, err := ecdsa.ParseUncompressedPublicKey(curve, point) // checks that it is on the curve
		if err != nil {
			return none, false
		}
		out.Public = key
	case "OKP":
		x := number("x")
		if text("crv") != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return none, false
		}
		out.Public = ed25519.PublicKey(x)
	default:
		return none, false
	}
	return out, true
}

func verifies(operations any) bool {
	list, _ := operations.([]any)
	return operations == "verify" || slices.Contains(list, any("verify"))
}

// Thumbprint returns the SHA-256 thumbprint of the key in base64url (RFC 7638), "" for a key that ParseSet does not
// return.
func (k Key) Thumbprint() string {
	text := base64.RawURLEncoding.EncodeToString
	var fields any // in the order of their names, without further ones
	switch key := k.Public.(type) {
	case *rsa.PublicKey:
		fields = struct {
			E   string `json:"e"`
			Kty string `json:"kty"`
			N   string `json:"n"`
		}{text(big.NewInt(int64(key.E)).Bytes()), "RSA", text(key.N.Bytes())}
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			return ""
		}
		half := (len(point) - 1) / 2
		fields = struct {
			Crv string `json:"crv"`
			Kty string `json:"kty"`
			X   string `json:"x"`
			Y   string `json:"y"`
		}{key.Curve.Params().Name, "EC", text(point[1 : 1+half]), text(point[1+half:])}
	case ed25519.PublicKey:
		fields = struct {
			Crv string `json:"crv"`
			Kty string `json:"kty"`
			X   string `json:"x"`
		}{"Ed25519", "OKP", text(key)}
	default:
		return ""
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return "" // cannot happen: texts
	}
	sum := sha256.Sum256(raw)
	return text(sum[:])
}

// Base64 is base64url that refuses bits after the last byte, so that a token has one form only.
var Base64 = base64.RawURLEncoding.Strict()

// DecodePart decodes one JSON object in base64url. It keeps the names as they are: decoding into a struct would
// take "ALG" for "alg".
func DecodePart(part string) (map[string]any, error) {
	raw, err := Base64.DecodeString(part)
	if err != nil {
		return nil, err
	}
	return DecodeObject(raw)
}

// DecodeObject decodes one JSON object, with its numbers as [json.Number].
func DecodeObject(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	if out == nil {
		return nil, errors.New("null")
	}
	return out, nil
}
