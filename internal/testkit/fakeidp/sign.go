package fakeidp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
)

// A Signer is one key of a Provider with its algorithm.
type Signer struct {
	// KeyID and Alg go into the header of tokens.
	KeyID, Alg string

	key     crypto.Signer // nil: HMAC with secret
	secret  []byte
	retired bool
}

// Rotate adds a signer with a new key, which signs from now on. The earlier keys stay published
// until Retire. It panics for an unknown algorithm.
func (p *Provider) Rotate(alg string) *Signer {
	s := NewSigner(alg)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signers = append(p.signers, s)
	return s
}

// Retire withdraws the published keys of all signers except the newest.
func (p *Provider) Retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.signers[:len(p.signers)-1] {
		s.retired = true
	}
}

// Signer returns the newest signer.
func (p *Provider) Signer() *Signer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signers[len(p.signers)-1]
}

// Token returns an access token of the newest signer: iss, sub "u1", iat, and exp in an hour, with
// changes. A nil value removes a claim.
func (p *Provider) Token(changes map[string]any) string {
	all := p.claims(changes)
	token := p.Signer().Sign(nil, all)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.issued[token] = all
	return token
}

// published returns the JSON Web Keys.
func (p *Provider) published() []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append([]map[string]any{}, p.keys...)
	for _, s := range p.signers {
		if !s.retired {
			all = append(all, s.JWK())
		}
	}
	return all
}

// NewSigner returns a signer that no Provider publishes, with a new key. Its algorithm may be HS256
// too, for tests that sign with a public key.
func NewSigner(alg string) *Signer {
	s := &Signer{KeyID: "k-" + random()[:8], Alg: alg}
	var err error
	switch alg {
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ES256":
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		s.key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		s.key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	case "HS256":
		s.secret = []byte(random())
	default:
		panic("fakeidp: unknown algorithm " + alg)
	}
	if err != nil {
		panic(err)
	}
	return s
}

// As returns a signer with the same key that says another algorithm. "HS256" signs with the bytes of
// the public key's JSON, "none" does not sign.
func (s *Signer) As(alg string) *Signer {
	out := *s
	out.Alg = alg
	if strings.HasPrefix(alg, "HS") {
		public, err := json.Marshal(s.JWK())
		if err != nil {
			panic(err)
		}
		out.key, out.secret = nil, public
	}
	return &out
}

// Public returns the public key, or the secret of an HMAC.
func (s *Signer) Public() any {
	if s.key == nil {
		return s.secret
	}
	return s.key.Public()
}

// JWK returns the public key as a JSON Web Key.
func (s *Signer) JWK() map[string]any {
	jwk := map[string]any{"kid": s.KeyID, "use": "sig", "alg": s.Alg}
	if s.key == nil {
		jwk["kty"], jwk["k"] = "oct", encode(s.secret)
		return jwk
	}
	switch key := s.key.Public().(type) {
	case *rsa.PublicKey:
		jwk["kty"], jwk["n"], jwk["e"] = "RSA", encode(key.N.Bytes()), encode(big.NewInt(int64(key.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := key.Bytes() // 4, x, y
		if err != nil {
			panic(err)
		}
		half := len(point) / 2
		jwk["kty"], jwk["crv"] = "EC", key.Params().Name
		jwk["x"], jwk["y"] = encode(point[1:1+half]), encode(point[1+half:])
	case ed25519.PublicKey:
		jwk["kty"], jwk["crv"], jwk["x"] = "OKP", "Ed25519", encode(key)
	}
	return jwk
}

// Sign returns a token with exactly these claims. header changes the usual header of alg, kid and
// typ; a nil value removes a member.
func (s *Signer) Sign(header, claims map[string]any) string {
	h := map[string]any{"alg": s.Alg, "kid": s.KeyID, "typ": "JWT"}
	maps.Copy(h, header)
	maps.DeleteFunc(h, func(_ string, v any) bool { return v == nil })
	head, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	text := encode(head) + "." + encode(body)
	return text + "." + encode(s.signature(text))
}

func (s *Signer) signature(text string) []byte {
	if s.Alg == "none" {
		return nil
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[s.Alg[max(0, len(s.Alg)-3):]]
	if s.key == nil {
		mac := hmac.New(hash.New, s.secret)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	if _, ok := s.key.(ed25519.PrivateKey); ok {
		return must(s.key.Sign(nil, []byte(text), crypto.Hash(0)))
	}
	digest := hash.New()
	digest.Write([]byte(text))
	sum := digest.Sum(nil)
	switch key := s.key.(type) {
	case *rsa.PrivateKey:
		if strings.HasPrefix(s.Alg, "PS") {
			return must(rsa.SignPSS(rand.Reader, key, hash, sum, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
		}
		return must(rsa.SignPKCS1v15(nil, key, hash, sum))
	case *ecdsa.PrivateKey:
		r, t, err := ecdsa.Sign(rand.Reader, key, sum)
		if err != nil {
			panic(err)
		}
		size := (key.Params().BitSize + 7) / 8
		out := make([]byte, 2*size)
		r.FillBytes(out[:size])
		t.FillBytes(out[size:])
		return out
	}
	panic(fmt.Sprintf("fakeidp: no signature with %T", s.key))
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func random() string { return rand.Text() }
