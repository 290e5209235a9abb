package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// minKey is the least length of a key, in bytes.
const minKey = 16

// Keys seal and open records. They are made by [NewKeys] and safe for concurrent use.
type Keys struct {
	first string // the id of the key that seals
	byID  map[string]cipher.AEAD
}

// NewKeys returns Keys of texts, which should be random: the first seals, and each one opens. The
// error never has a key.
func NewKeys(texts []string) (*Keys, error) {
	if len(texts) == 0 {
		return nil, errors.New("a store in a folder needs a key: set credentials.keys")
	}
	k := &Keys{byID: map[string]cipher.AEAD{}}
	for i, text := range texts {
		if len(text) < minKey {
			return nil, fmt.Errorf("credentials.keys[%d] has %d bytes; a key has at least %d, for example the output of: openssl rand -base64 32", i, len(text), minKey)
		}
		id, err := hkdf.Key(sha256.New, []byte(text), nil, "weir credentials key id", 8)
		if err != nil {
			return nil, err
		}
		key, err := hkdf.Key(sha256.New, []byte(text), nil, "weir credentials aes-256-gcm", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		name := hex.EncodeToString(id)
		if i == 0 {
			k.first = name
		}
		k.byID[name] = aead
	}
	return k, nil
}

// NewKey returns a random text for [NewKeys].
func NewKey() string { return rand.Text() + rand.Text() }

// envelope is a record in a file. All of it but Sealed is authenticated with the data.
type envelope struct {
	ID
	IssuedBy string `json:"issued_by"`
	Key      string `json:"key"`
	Sealed   []byte `json:"sealed,omitempty"`
}

// additional returns the authenticated part of an envelope. JSON keeps its texts apart.
func (e envelope) additional() []byte {
	e.Sealed = nil
	text, _ := json.Marshal(e) // only strings
	return text
}

func (k *Keys) seal(id ID, r Record) envelope {
	e := envelope{ID: id, IssuedBy: r.Issuer, Key: k.first}
	e.Sealed = k.byID[k.first].Seal(nil, nil, r.Data, e.additional())
	return e
}

// open returns the record of an envelope that was found for id.
func (k *Keys) open(id ID, e envelope) (Record, error) {
	aead := k.byID[e.Key]
	if aead == nil {
		return Record{}, fmt.Errorf("%w: it was sealed with the key %.16s", ErrClosed, e.Key)
	}
	e.ID = id
	data, err := aead.Open(nil, nil, e.Sealed, e.additional())
	if err != nil {
		return Record{}, fmt.Errorf("%w: it was changed, or belongs to another principal or server", ErrClosed)
	}
	if data == nil {
		data = []byte{}
	}
	return Record{Issuer: e.IssuedBy, Data: data}, nil
}
