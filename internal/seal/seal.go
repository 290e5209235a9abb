package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"sync"
)

// keyBytes is the length of the key.
const keyBytes = 32

// maxSealed bounds the texts that Open looks at. Unauthenticated clients send them.
const maxSealed = 16 << 10

// Key seals and opens. It is safe for concurrent use.
type Key struct {
	secret []byte
	former []*Key // open texts that they have sealed

	mu    sync.Mutex // guards below
	aeads map[string]cipher.AEAD
}

// NewKey returns a Key from 32 random bytes in base64url, as package place keeps them.
func NewKey(text string) (*Key, error) {
	secret, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(secret) != keyBytes {
		return nil, errors.New("a key has 32 bytes in base64url") // without the text, which is a secret
	}
	return &Key{secret: secret, aeads: map[string]cipher.AEAD{}}, nil
}

// With returns a key that also opens texts that former keys have sealed. It never seals with one of
// them.
func (k *Key) With(former ...*Key) *Key {
	return &Key{secret: k.secret, former: former, aeads: map[string]cipher.AEAD{}}
}

// Secret returns 32 bytes for a purpose that is no sealing, the same ones each time.
func (k *Key) Secret(purpose string) []byte { return k.derive("weir/secret/" + purpose) }

// Secrets returns the secret of k for a purpose, and then the secrets of the former keys. Things of the latter
// may still be in use; new things take the first one.
func (k *Key) Secrets(purpose string) [][]byte {
	all := [][]byte{k.Secret(purpose)}
	for _, old := range k.former {
		all = append(all, old.Secret(purpose))
	}
	return all
}

func (k *Key) derive(info string) []byte {
	secret, err := hkdf.Key(sha256.New, k.secret, nil, info, keyBytes)
	if err != nil {
		panic(err) // cannot happen: the length is fine
	}
	return secret
}

// aead returns the cipher of a purpose. Purposes are constants of the program.
func (k *Key) aead(purpose string) cipher.AEAD {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.aeads[purpose]; a != nil {
		return a
	}
	block, err := aes.NewCipher(k.derive("weir/" + purpose))
	if err != nil {
		panic(err) // cannot happen: see above
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // cannot happen: AES has blocks of 16 bytes
	}
	k.aeads[purpose] = a
	return a
}

// Seal encrypts plain. The text opens with the same purpose and the same context, such as the
// endpoint that it is for. It has the characters of base64url.
func (k *Key) Seal(purpose string, plain, context []byte) string {
	return base64.RawURLEncoding.EncodeToString(k.aead(purpose).Seal(nil, nil, plain, context))
}

// Open decrypts a text of Seal. It reports whether the text is one.
func (k *Key) Open(purpose, sealed string, context []byte) (plain []byte, ok bool) {
	if len(sealed) > maxSealed {
		return nil, false
	}
	return k.OpenKept(purpose, sealed, context)
}

// OpenKept is Open for a text that comes from weir's own store: its length has no bound.
func (k *Key) OpenKept(purpose, sealed string, context []byte) (plain []byte, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return nil, false
	}
	if plain, err = k.aead(purpose).Open(nil, nil, raw, context); err == nil {
		return plain, true
	}
	for _, old := range k.former {
		if plain, err = old.aead(purpose).Open(nil, nil, raw, context); err == nil {
			return plain, true
		}
	}
	return nil, false
}
