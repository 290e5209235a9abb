package smcp

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
)

// Proof shows the Server that a Computer holds the private half of a key: it is the signature of a
// nonce from the Server.
type Proof struct {
	Key       string `json:"key"`       // public key, base64
	Signature string `json:"signature"` // base64
}

// EncodeKey returns the text form of a public key.
func EncodeKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// DecodeKey parses the text form of a public key.
func DecodeKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("a public key is 32 bytes in base64: what weir computer --show-key prints")
	}
	return raw, nil
}

// Errors of results whose signature is required.
var (
	ErrUnsigned     = errors.New("the result is not signed")
	ErrBadSignature = errors.New("the signature of the result does not fit")
)
