package oauth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/identity"
)

const (
	maxAssertion  = 64 << 10
	assertionLife = 5 * time.Minute
)

// assertion returns the JWT with which a client proves who it is (RFC 7523 §3): the one in its file,
// which the platform renews, or one that is signed with its key.
func (c *Client) assertion(s *Server, clientID, issuer string) (identity.Secret, error) {
	if s.AssertionFile != "" && !s.Flow.usesFile() {
		return readAssertion(s)
	}
	key, method, err := signingKey(string(s.PrivateKey))
	if err != nil {
		return "", fmt.Errorf("mcpServers.%s.oauth.private_key: %w", s.Name, err)
	}
	now := c.now()
	signed, err := jwt.NewWithClaims(method, jwt.RegisteredClaims{
		Issuer: clientID, Subject: clientID, Audience: jwt.ClaimStrings{issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(assertionLife)),
	}).SignedString(key)
	return identity.Secret(signed), err
}

func readAssertion(s *Server) (identity.Secret, error) {
	f, err := place.Open(s.AssertionFile)
	if err != nil {
		return "", fmt.Errorf("mcpServers.%s.oauth.assertion_file: %w", s.Name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAssertion+1))
	token := strings.TrimSpace(string(data))
	if err == nil && (len(data) > maxAssertion || strings.Count(token, ".") != 2) {
		err = errors.New("it has no JWT")
	}
	if err != nil {
		return "", fmt.Errorf("mcpServers.%s.oauth.assertion_file: %w", s.Name, err)
	}
	return identity.Secret(token), nil
}

// signingKey reads a private key in PEM: PKCS #8, PKCS #1 or SEC 1.
func signingKey(text string) (any, jwt.SigningMethod, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, nil, errors.New("it is not a private key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if key, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			key, err = x509.ParseECPrivateKey(block.Bytes)
		}
	}
	if err != nil {
		return nil, nil, errors.New("it is not a private key in PKCS #8, PKCS #1 or SEC 1")
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return k, jwt.SigningMethodRS256, nil
	case ed25519.PrivateKey:
		return k, jwt.SigningMethodEdDSA, nil
	case *ecdsa.PrivateKey:
		if m := map[int]jwt.SigningMethod{256: jwt.SigningMethodES256, 384: jwt.SigningMethodES384, 521: jwt.SigningMethodES512}[k.Curve.Params().BitSize]; m != nil {
			return k, m, nil
		}
	}
	return nil, nil, fmt.Errorf("weir does not sign with a key of type %T", key)
}
