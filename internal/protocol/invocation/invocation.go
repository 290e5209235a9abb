// Package invocation signs and checks the tokens with which a router vouches for the requests that
// it hands on to an agent server. An agent that has a [Verifier] can refuse requests that did not
// come through its router.
//
//	router: Signer.Sign(principal, agent, tool) ─▶ JWT ─▶ header Weir-Invocation ─▶ agent: Verifier.Verify
//
//	claims: iss the router   aud the agent's name   sub the principal   tool the tool called, absent for other methods
//	        iat, exp at most 60 s later             jti random, accepted once
//
// The signature is HS256 with a shared secret of 32 bytes or more, or EdDSA
// with an Ed25519 key pair. The package knows nothing of MCP and of HTTP.
package invocation

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Header is the name of the HTTP header that bears the token.
const Header = "Weir-Invocation"

const (
	// maxAge is how long a token may be valid.
	maxAge = 60 * time.Second
	// leeway is how much the clocks of router and agent may differ.
	leeway = 5 * time.Second
	// maxSeen bounds the tokens that are remembered. Past it, new ones are
	// refused: that many within a minute are no ordinary load.
	maxSeen = 1 << 20
	// minSecret is the least length of a shared secret.
	minSecret = 32
	// maxToken bounds a token, in bytes.
	maxToken = 4096
)

// errRefused is the cause of every error of Verify.
var errRefused = errors.New("the invocation token is refused")

// ErrSignature is a cause of an error of Verify: another secret or another method has signed the token.
var ErrSignature = errors.New("its signature is wrong")

// Claims are the claims of a token.
type Claims struct {
	Issuer    string // the router
	Audience  string // the agent's name
	Principal string // on whose behalf
	Tool      string // the tool called; "" for any other method
}

// claims is the form on the wire.
type claims struct {
	Tool string `json:"tool,omitempty"`
	jwt.RegisteredClaims
}

// Signer makes tokens. It is safe for concurrent use.
type Signer struct {
	issuer string
	method jwt.SigningMethod
	key    any
}

// NewSigner returns a Signer for a key: an ed25519.PrivateKey, or a []byte
// shared with the agent.
func NewSigner(issuer string, key any) (*Signer, error) {
	switch k := key.(type) {
	case ed25519.PrivateKey:
		if len(k) != ed25519.PrivateKeySize {
			return nil, errors.New("invocation: this is no Ed25519 private key")
		}
		return &Signer{issuer, jwt.SigningMethodEdDSA, k}, nil
	case []byte:
		if len(k) < minSecret {
			return nil, fmt.Errorf("invocation: a shared secret needs %d bytes or more, not %d", minSecret, len(k))
		}
		return &Signer{issuer, jwt.SigningMethodHS256, k}, nil
	}
	return nil, fmt.Errorf("invocation: no way to sign with a %T", key)
}

// Sign returns a token for one request to an agent. It is valid for half of
// maxAge and used once.
func (s *Signer) Sign(principal, agent, tool string) (string, error) {
	now := time.Now()
	token := jwt.NewWithClaims(s.method, claims{Tool: tool, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: s.issuer, Subject: principal, Audience: jwt.ClaimStrings{agent}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(maxAge / 2)),
	}})
	signed, err := token.SignedString(s.key)
	if err != nil {
		return "", fmt.Errorf("invocation: %w", err)
	}
	return signed, nil
}

// Verifier checks tokens. It is safe for concurrent use.
type Verifier struct {
	agent  string
	key    any
	parser *jwt.Parser

	mu    sync.Mutex // guards below
	seen  map[string]time.Time
	sweep time.Time
}

// NewVerifier returns a Verifier for the agent with a name. The key is the
// router's ed25519.PublicKey, or the []byte shared with it; only tokens of that
// one algorithm are accepted.
func NewVerifier(agent string, key any) (*Verifier, error) {
	method := ""
	switch k := key.(type) {
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return nil, errors.New("invocation: this is no Ed25519 public key")
		}
		method = jwt.SigningMethodEdDSA.Alg()
	case []byte:
		if len(k) < minSecret {
			return nil, fmt.Errorf("invocation: a shared secret needs %d bytes or more, not %d", minSecret, len(k))
		}
		method = jwt.SigningMethodHS256.Alg()
	default:
		return nil, fmt.Errorf("invocation: no way to verify with a %T", key)
	}
	return &Verifier{
		agent: agent, key: key, seen: map[string]time.Time{},
		parser: jwt.NewParser(jwt.WithValidMethods([]string{method}), jwt.WithAudience(agent), jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(), jwt.WithLeeway(leeway)),
	}, nil
}

// Verify checks a token and returns its claims. A token is accepted once. The error wraps
// errRefused and says why; it is for the log, and may be shown.
func (v *Verifier) Verify(token string) (Claims, error) {
	refuse := func(format string, args ...any) (Claims, error) {
		return Claims{}, fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
	}
	if token == "" {
		return refuse("it is missing; this agent answers its router only")
	}
	if len(token) > maxToken {
		return refuse("it is longer than %d bytes", maxToken)
	}
	var c claims
	if _, err := v.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return v.key, nil }); err != nil {
		switch {
		case errors.Is(err, jwt.ErrTokenExpired):
			return refuse("it has expired")
		case errors.Is(err, jwt.ErrTokenInvalidAudience):
			return refuse("it is not for the agent %q", v.agent)
		case errors.Is(err, jwt.ErrTokenSignatureInvalid):
			return Claims{}, fmt.Errorf("%w: %w: %w", errRefused, ErrSignature, err)
		}
		return refuse("%v", err)
	}
	switch {
	case c.IssuedAt == nil:
		return refuse("it has no iat")
	case c.ExpiresAt.Sub(c.IssuedAt.Time) > maxAge:
		return refuse("it is valid for longer than %v", maxAge)
	case c.ID == "" || len(c.ID) > 256:
		return refuse("it has no jti")
	case c.Subject == "":
		return refuse("it has no sub")
	}
	if err := v.once(c.Issuer+"\x00"+c.ID, c.ExpiresAt.Add(leeway)); err != nil {
		return refuse("%v", err)
	}
	return Claims{Issuer: c.Issuer, Audience: v.agent, Principal: c.Subject, Tool: c.Tool}, nil
}

// once remembers an id until its token is void.
func (v *Verifier) once(id string, until time.Time) error {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.seen[id]; ok {
		return errors.New("it was used before")
	}
	if now.After(v.sweep) || len(v.seen) >= maxSeen {
		for old, end := range v.seen {
			if now.After(end) {
				delete(v.seen, old)
			}
		}
		v.sweep = now.Add(maxAge / 2)
	}
	if len(v.seen) >= maxSeen {
		return errors.New("too many tokens were used within a minute")
	}
	v.seen[id] = until
	return nil
}
