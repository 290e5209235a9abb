package link

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/seal"
)

// keyBytes is the length of a key.
const keyBytes = 32

// Key is the secret of a cluster. It is safe for concurrent use.
type Key struct {
	seal   *seal.Key
	signer ed25519.PrivateKey
	cert   *x509.Certificate // of the authority, the same at each node
}

// Parse returns the key that a text has: 32 bytes in hexadecimal, or in base64 of either alphabet with
// or without padding. Errors do not tell the text.
func Parse(text string) (*Key, error) {
	raw, err := decode(strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	k := &Key{}
	if k.seal, err = seal.NewKey(base64.RawURLEncoding.EncodeToString(raw)); err != nil {
		return nil, err
	}
	return k, k.certify()
}

func decode(text string) ([]byte, error) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == keyBytes {
		return raw, nil
	}
	plain := strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
	raw, err := base64.RawURLEncoding.DecodeString(plain)
	if err != nil || len(raw) != keyBytes {
		return nil, errors.New("a key has 32 bytes in base64 or hexadecimal: make one with openssl rand -base64 32")
	}
	return raw, nil
}

// The authority's certificate says nothing that differs between nodes, so each makes the same.
var authorityBegin, authorityEnd = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)

// certify makes the authority.
func (k *Key) certify() error {
	k.signer = ed25519.NewKeyFromSeed(k.seal.Secret("cluster/authority"))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir cluster"},
		NotBefore: authorityBegin, NotAfter: authorityEnd,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(nil, template, template, k.signer.Public(), k.signer)
	if err != nil {
		return err
	}
	k.cert, err = x509.ParseCertificate(der)
	return err
}

// Seal returns the key that seals what the cluster's nodes give away and any of them gets back. What one of the
// old keys has sealed opens as well.
func (k *Key) Seal(old ...*Key) *seal.Key {
	former := make([]*seal.Key, len(old))
	for i, one := range old {
		former[i] = one.seal
	}
	return k.seal.With(former...)
}
