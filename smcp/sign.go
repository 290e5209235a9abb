package smcp

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// Proof shows the Server that a Computer holds the private half of a key: it is the signature of a
// nonce from the Server.
type Proof struct {
	Key       string `json:"key"`       // public key, base64
	Signature string `json:"signature"` // base64
}

// Challenge is the answer to server:challenge.
type Challenge struct {
	Nonce string `json:"nonce"`
}

// joinText returns the text that a Computer signs. It is valid for one connection, name, office and
// nonce.
func joinText(nonce, sid, name, office string) []byte {
	raw, err := json.Marshal([]string{"weir a2c-smcp join", nonce, sid, name, office})
	if err != nil {
		panic(err) // texts only
	}
	return raw
}

// Prove signs a join.
func Prove(key ed25519.PrivateKey, nonce, sid, name, office string) *Proof {
	return &Proof{Key: EncodeKey(key.Public().(ed25519.PublicKey)), Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(key, joinText(nonce, sid, name, office)))}
}

// Check reports whether p proves key for a join.
func (p *Proof) Check(key ed25519.PublicKey, nonce, sid, name, office string) bool {
	if p == nil || nonce == "" || p.Key != EncodeKey(key) {
		return false
	}
	sig, err := base64.StdEncoding.DecodeString(p.Signature)
	return err == nil && ed25519.Verify(key, joinText(nonce, sid, name, office), sig)
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

// Signature is the value of _meta["weir/signature"] of a result.
type Signature struct {
	Algorithm string `json:"alg"` // "ed25519"
	Key       string `json:"key"`
	Value     string `json:"sig"`
}

// Errors of VerifyResult.
var (
	ErrUnsigned     = errors.New("the result is not signed")
	ErrBadSignature = errors.New("the signature of the result does not fit")
)

// SignResult adds a signature to the result of a tool call. It covers the result, the Computer's
// name, the tool and the request, so that a signed result cannot answer another call. White space and
// the order of keys may change in transit.
func SignResult(key ed25519.PrivateKey, computer, tool, reqID string, result json.RawMessage) (json.RawMessage, error) {
	digest, err := resultDigest(computer, tool, reqID, result)
	if err != nil {
		return nil, err
	}
	sig, err := json.Marshal(Signature{"ed25519", EncodeKey(key.Public().(ed25519.PublicKey)), base64.StdEncoding.EncodeToString(ed25519.Sign(key, digest))})
	if err != nil {
		return nil, err
	}
	return rawjson.SetPath(result, sig, "_meta", MetaSignature)
}

// VerifyResult checks the signature of a result. The errors wrap ErrUnsigned or
// ErrBadSignature.
func VerifyResult(key ed25519.PublicKey, computer, tool, reqID string, result json.RawMessage) error {
	raw := rawjson.GetPath(result, "_meta", MetaSignature)
	if raw == nil {
		return fmt.Errorf("computer %q: %w", computer, ErrUnsigned)
	}
	var s Signature
	bad := fmt.Errorf("computer %q: %w", computer, ErrBadSignature)
	if json.Unmarshal(raw, &s) != nil || s.Algorithm != "ed25519" || s.Key != EncodeKey(key) {
		return bad
	}
	sig, err := base64.StdEncoding.DecodeString(s.Value)
	if err != nil {
		return bad
	}
	digest, err := resultDigest(computer, tool, reqID, result)
	if err != nil || !ed25519.Verify(key, digest, sig) {
		return bad
	}
	return nil
}

// resultDigest returns the hash of a result without its signature. The order of keys, white space and
// an empty _meta do not change it.
func resultDigest(computer, tool, reqID string, result json.RawMessage) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(result))
	dec.UseNumber()
	var obj map[string]any
	if err := dec.Decode(&obj); err != nil {
		return nil, fmt.Errorf("a result that is no object cannot be signed: %w", err)
	}
	if meta, ok := obj["_meta"].(map[string]any); ok {
		delete(meta, MetaSignature)
		if len(meta) == 0 {
			delete(obj, "_meta")
		}
	}
	text, err := json.Marshal([]any{"weir a2c-smcp result", computer, tool, reqID, obj})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// ChannelReqID returns the request id that the signature of a result covers if the call came over a
// channel of client:mcp. It consists of the channel and the JSON-RPC id.
func ChannelReqID(channel, id string) string { return channel + "/" + id }
