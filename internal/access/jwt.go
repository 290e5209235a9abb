package access

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/jwk"
)

// token is a parsed JWT whose signature is not checked yet.
type token struct {
	alg, kid  string
	kind      string // typ in lower case, without application/
	signed    string // header and claims as they stand in the token
	signature []byte
	claims    map[string]any
}

// parseJWT reads an access token or an ID token. It verifies nothing of it (spec/identity §2).
func parseJWT(text string) (*token, error) { return parseKind(text, "jwt", "at+jwt") }

// parseKind reads a token whose typ, if it has one, is one of kinds.
func parseKind(text string, kinds ...string) (*token, error) {
	head, rest, _ := strings.Cut(text, ".")
	body, tail, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(tail, ".") || len(text) > maxToken {
		return nil, errors.New("it has not three parts")
	}
	header, err := jwk.DecodePart(head)
	if err != nil {
		return nil, errors.New("its header is not JSON")
	}
	// These would let the token choose the key that verifies it, or ask for rules that are not
	// known here.
	for _, name := range []string{"jku", "x5u", "jwk", "crit"} {
		if _, there := header[name]; there {
			return nil, errors.New("its header has " + name + ", which is not accepted")
		}
	}
	t := &token{signed: text[:len(head)+1+len(body)]}
	t.alg, _ = header["alg"].(string)
	if jwk.Algorithms[t.alg] == nil {
		return nil, errors.New("its alg is none of RS, PS, ES and EdDSA")
	}
	if kid, there := header["kid"]; there {
		if t.kid, ok = kid.(string); !ok || len(t.kid) > 1024 {
			return nil, errors.New("its kid is not a text")
		}
	}
	if kind, there := header["typ"]; there {
		name, _ := kind.(string)
		if t.kind = strings.TrimPrefix(strings.ToLower(name), "application/"); !slices.Contains(kinds, t.kind) {
			return nil, errors.New("its typ says that it is no access token")
		}
	}
	if t.claims, err = jwk.DecodePart(body); err != nil {
		return nil, errors.New("its claims are not JSON")
	}
	if t.signature, err = jwk.Base64.DecodeString(tail); err != nil || len(t.signature) == 0 {
		return nil, errors.New("its signature is not base64url")
	}
	return t, nil
}

// verifyJWT checks the signature and the claims of a JWT.
func (s *state) verifyJWT(ctx context.Context, text string, now time.Time) (*verified, error) {
	t, err := parseJWT(text)
	if err != nil {
		return nil, unauthorized("the bearer token is not accepted: %v", err)
	}
	iss, _ := t.claims["iss"].(string)
	if s.own != nil && iss == s.own.Issuer.Issuer {
		return s.verifyOwn(ctx, t, text, now)
	}
	from := s.issuers[iss]
	if from == nil {
		return nil, unauthorized("the bearer token is of an issuer that is not in auth.issuers")
	}
	if err := from.verifySignature(ctx, t); err != nil {
		return nil, err
	}
	v, err := s.read(from, t.claims, now, true)
	if err != nil {
		return nil, unauthorized("the bearer token is not accepted: %v", err)
	}
	v.id.Bearer = secret(text)
	return v, nil
}

// verifySignature finds the key and checks the signature. A token without kid may be of any key of
// the issuer that fits its algorithm.
func (i *issuer) verifySignature(ctx context.Context, t *token) error {
	matches := func(keys []jwk.Key) bool {
		for _, k := range keys {
			if k.Verify(t.alg, t.signed, t.signature) {
				return true
			}
		}
		return false
	}
	// Without a kid, a signature that no key made may be one of a new key.
	unsatisfied := func(keys []jwk.Key) bool { return len(keys) == 0 || t.kid == "" && !matches(keys) }
	keys, err := i.keys.find(ctx, t.kid, unsatisfied)
	if err != nil {
		return err
	}
	if !matches(keys) {
		return unauthorized("the bearer token is not accepted: no key of the issuer %q made its signature", i.Name)
	}
	return nil
}
