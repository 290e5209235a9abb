package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
)

// Bounds of keys (spec/identity §2).
const (
	minRSA  = 2048
	maxRSA  = 8192
	maxKeys = 128
)

// publicKey is one key of an issuer.
type publicKey struct {
	kid string
	alg string // "" if the issuer does not restrict it
	key crypto.PublicKey
}

// fits reports whether a key may verify an algorithm: the type of the key decides, never the token.
func (k publicKey) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch key := k.key.(type) {
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

// parseJWKS reads a set of JSON Web Keys. It leaves out keys that do not verify signatures, and
// unusable ones. A set without any usable key is an error.
func parseJWKS(raw []byte) ([]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, errors.New("the key set is not JSON")
	}
	if len(set.Keys) > maxKeys {
		return nil, errors.New("the key set has too many keys")
	}
	var keys []publicKey
	for _, raw := range set.Keys {
		if key, ok := parseJWK(raw); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no usable key")
	}
	return keys, nil
}

func parseJWK(raw json.RawMessage) (publicKey, bool) {
	var none publicKey
	jwk, err := decodeObject(raw)
	if err != nil {
		return none, false
	}
	text := func(name string) string { s, _ := jwk[name].(string); return s }
	number := func(name string) []byte { b, _ := strictBase64.DecodeString(text(name)); return b }
	if use := text("use"); use != "" && use != "sig" {
		return none, false
	}
	if operations, there := jwk["key_ops"]; there && !claimHas(operations, "verify") {
		return none, false
	}
	out := publicKey{kid: text("kid"), alg: text("alg")}
	switch text("kty") {
	case "RSA":
		n, e := new(big.Int).SetBytes(number("n")), new(big.Int).SetBytes(number("e"))
		if n.BitLen() < minRSA || n.BitLen() > maxRSA || e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
			return none, false
		}
		out.key = &rsa.PublicKey{N: n, E: int(e.Int64())}
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
		out.key = key
	case "OKP":
		x := number("x")
		if text("crv") != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return none, false
		}
		out.key = ed25519.PublicKey(x)
	default:
		return none, false
	}
	return out, true
}
