package a2c

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
)

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
func Prove(key ed25519.PrivateKey, nonce, sid, name, office string) *smcp.Proof {
	return &smcp.Proof{Key: smcp.EncodeKey(key.Public().(ed25519.PublicKey)), Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(key, joinText(nonce, sid, name, office)))}
}

// CheckProof reports whether p proves key for a join.
func CheckProof(p *smcp.Proof, key ed25519.PublicKey, nonce, sid, name, office string) bool {
	if p == nil || nonce == "" || p.Key != smcp.EncodeKey(key) {
		return false
	}
	sig, err := base64.StdEncoding.DecodeString(p.Signature)
	return err == nil && ed25519.Verify(key, joinText(nonce, sid, name, office), sig)
}

// signature encodes to _meta["weir/signature"] of a result.
type signature struct {
	Algorithm string `json:"alg"` // "ed25519"
	Key       string `json:"key"`
	Value     string `json:"sig"`
}

// SignResult adds a signature to the result of a tool call. It covers the result, the Computer's
// name, the tool and the request, so that a signed result cannot answer another call. White space and
// the order of keys may change in transit.
func SignResult(key ed25519.PrivateKey, computer, tool, reqID string, result json.RawMessage) (json.RawMessage, error) {
	digest, err := resultDigest(computer, tool, reqID, result)
	if err != nil {
		return nil, err
	}
	sig, err := json.Marshal(signature{"ed25519", smcp.EncodeKey(key.Public().(ed25519.PublicKey)), base64.StdEncoding.EncodeToString(ed25519.Sign(key, digest))})
	if err != nil {
		return nil, err
	}
	return rawjson.SetPath(result, sig, "_meta", smcp.MetaSignature)
}

// VerifyResult checks the signature of a result. The errors wrap ErrUnsigned or
// ErrBadSignature.
func VerifyResult(key ed25519.PublicKey, computer, tool, reqID string, result json.RawMessage) error {
	raw := rawjson.GetPath(result, "_meta", smcp.MetaSignature)
	if raw == nil {
		return fmt.Errorf("computer %q: %w", computer, smcp.ErrUnsigned)
	}
	var s signature
	bad := fmt.Errorf("computer %q: %w", computer, smcp.ErrBadSignature)
	if json.Unmarshal(raw, &s) != nil || s.Algorithm != "ed25519" || s.Key != smcp.EncodeKey(key) {
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
		delete(meta, smcp.MetaSignature)
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
