package access

import (
	"context"
	"crypto/ecdsa"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/identity"
)

// Own is the authorization server of the gateway itself. Its users are the principals of other issuers, or members.
type Own struct {
	Server OwnServer
	// Scopes are those that clients should ask for.
	Scopes []string
	// Prefixes are the parts before the colon of principals who are not known without an entry in Members.
	Prefixes []string
	// Members are the principals of the configuration with their groups.
	Members map[string][]string
}

// OwnServer signs the tokens. Its methods are called concurrently.
type OwnServer interface {
	// Issuer is the claim iss.
	Issuer() string
	// Key returns the key with an id. The error says that there is none, or that it cannot be looked up.
	Key(ctx context.Context, id string) (*ecdsa.PublicKey, error)
	// Ended reports whether the grant that a token belongs to has ended. It is asked for each request.
	Ended(grant string) bool
}

// verifyOwn checks an access token of the gateway itself.
func (s *state) verifyOwn(ctx context.Context, t *token, text string, now time.Time) (*verified, error) {
	own := s.policy.Own
	if t.alg != "ES256" || t.kind != "at+jwt" {
		return nil, unauthorized("the bearer token is not accepted: it is no access token of this gateway")
	}
	key, err := own.Server.Key(ctx, t.kid)
	if err != nil || jwk.Algorithms[t.alg].Verify(t.signed, t.signature, key) != nil {
		return nil, unauthorized("the bearer token is not accepted: no key of this gateway made its signature; sign in again")
	}
	v, err := s.ownIdentity(t.claims, now)
	if err != nil {
		return nil, unauthorized("the bearer token is not accepted: %v", err)
	}
	v.id.Bearer = secret(text)
	return v, nil
}

// ownIdentity makes an identity of the claims of a token of the gateway itself.
func (s *state) ownIdentity(claims map[string]any, now time.Time) (*verified, error) {
	expires, err := lifetime(claims, now, true)
	if err != nil {
		return nil, err
	}
	principal, err := subjectOf(claims, &issuer{Issuer: Issuer{Subject: "sub"}})
	if err != nil {
		return nil, err
	}
	v := &verified{issuer: s.own, audiences: texts(claims["aud"]), until: expires.Add(leeway)}
	if v.bound, err = boundTo(claims); err != nil {
		return nil, err
	}
	v.grant, _ = claims["sid"].(string)
	id := &identity.Identity{
		Principal: principal, Groups: sorted(texts(claims["groups"])), Scopes: scopesOf(claims), Claims: claims,
		GroupsMissing: groupsMissing(claims, "groups"), Expires: expires, Revocable: true,
	}
	id.Client, _ = claims["client_id"].(string)
	id.Issuer, _, _ = strings.Cut(principal, ":")
	own := s.policy.Own
	for _, prefix := range own.Prefixes {
		if id.Issuer != prefix {
			continue
		}
		groups, known := own.Members[principal]
		if !known {
			return nil, unknownMember(principal)
		}
		id.Groups = sorted(groups)
	}
	id.Roles = s.policy.roles(id)
	if id.GroupsMissing {
		id.RolesMissing = s.rolesByGroup(id)
	}
	v.id = id
	return v, nil
}

func unknownMember(principal string) error {
	return unauthorized("%s is not in the configuration any more", principal)
}

// Resource returns the audience of a URL of a gateway: the URL itself, or of a path that is a protected resource. ok
// is false for every other URL.
func Resource(public, address string) (audience string, ok bool) {
	rest, ok := strings.CutPrefix(address, public)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	if u, err := url.Parse(address); err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ContainsAny(rest, "%\\?#") {
		return "", false
	}
	rest = strings.TrimSuffix(rest, "/")
	if rest == "" {
		return public, true
	}
	if strings.Contains(rest, "/.") || strings.Contains(rest, "//") || resourcePath(rest) != rest {
		return "", false
	}
	return public + rest, true
}
