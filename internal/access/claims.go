package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/weir-mcp/weir/internal/identity"
)

func secret(text string) identity.Secret { return identity.Secret(text) }

// read checks the claims of an access token and makes an identity of them. mustExpire says that exp is
// needed, as in a JWT; an introspection endpoint may leave it out.
func (s *state) read(from *issuer, claims map[string]any, now time.Time, mustExpire bool) (*verified, error) {
	if err := accessToken(claims); err != nil {
		return nil, err
	}
	return s.identify(from, claims, now, mustExpire)
}

// identify makes an identity of the claims of a token of any kind.
func (s *state) identify(from *issuer, claims map[string]any, now time.Time, mustExpire bool) (*verified, error) {
	expires, err := lifetime(claims, now, mustExpire)
	if err != nil {
		return nil, err
	}
	for name, want := range from.Require {
		if !claimHas(claimAt(claims, name), want) {
			return nil, fmt.Errorf("its claim %s is not %q, as auth.issuers.%s.require wants", name, want, from.Name)
		}
	}
	subject, err := subjectOf(claims, from)
	if err != nil {
		return nil, err
	}
	v := &verified{issuer: from, audiences: texts(claims["aud"])}
	if v.bound, err = boundTo(claims); err != nil {
		return nil, err
	}
	id := &identity.Identity{
		Principal: from.Name + ":" + subject, Issuer: from.Name, Groups: sorted(texts(claimAt(claims, from.Groups))), Scopes: scopesOf(claims), Needed: from.Scopes,
		Claims: claims, GroupsMissing: groupsMissing(claims, from.Groups), Expires: expires,
	}
	for _, name := range []string{"azp", "client_id", "cid", "appid"} {
		if client, _ := claims[name].(string); client != "" {
			id.Client = client
			break
		}
	}
	id.Roles = s.policy.roles(id)
	if id.GroupsMissing {
		id.RolesMissing = s.rolesByGroup(id)
	}
	v.id, v.until = id, expires.Add(leeway)
	if expires.IsZero() {
		v.until = now.Add(cacheTime)
	}
	return v, nil
}

// accessToken refuses tokens of other kinds. nonce says nothing: Keycloak before 25 puts it into
// access tokens.
func accessToken(claims map[string]any) error {
	const idToken = "it is an ID token, which is for the client; send the access token"
	for _, name := range []string{"at_hash", "c_hash"} {
		if _, there := claims[name]; there {
			return errors.New(idToken)
		}
	}
	switch kind, _ := claims["typ"].(string); strings.ToLower(kind) {
	case "id":
		return errors.New(idToken)
	case "refresh", "offline", "logout":
		return errors.New("it is a token for the issuer; send the access token")
	}
	switch use, _ := claims["token_use"].(string); use {
	case "", "access", "access_token":
	default:
		return errors.New("its token_use says that it is no access token")
	}
	return nil
}

// lifetime checks exp and nbf.
func lifetime(claims map[string]any, now time.Time, mustExpire bool) (expires time.Time, err error) {
	if raw, there := claims["exp"]; there {
		end, ok := timeOf(raw)
		switch {
		case !ok:
			return expires, errors.New("its exp is not a number")
		case !now.Before(end.Add(leeway)):
			return expires, errors.New("it has expired")
		}
		expires = end
	} else if mustExpire {
		return expires, errors.New("it has no exp")
	}
	if raw, there := claims["nbf"]; there {
		if start, ok := timeOf(raw); !ok || now.Add(leeway).Before(start) {
			return expires, errors.New("it is not valid yet")
		}
	}
	return expires, nil
}

// maxTime is the end of the year 9999.
const maxTime = 253402300799

// timeOf reads a NumericDate.
func timeOf(raw any) (time.Time, bool) {
	n, ok := raw.(json.Number)
	if !ok {
		return time.Time{}, false
	}
	f, err := n.Float64()
	if err != nil || f < 0 {
		return time.Time{}, false
	}
	whole, part := math.Modf(min(f, maxTime))
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// subjectOf returns the user of a token.
func subjectOf(claims map[string]any, from *issuer) (string, error) {
	subject, _ := claimAt(claims, from.Subject).(string)
	if subject == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, unicode.IsControl) {
		return "", fmt.Errorf("its claim %s is not a text of 1 to %d bytes", from.Subject, maxSubject)
	}
	// Without this check, a user could register the address of another at the issuer.
	if from.Subject == "email" && claims["email_verified"] != true && claims["email_verified"] != "true" {
		return "", errors.New("the issuer has not verified its e-mail address (email_verified)")
	}
	return subject, nil
}

// scopesOf returns the scopes: a text with spaces, or a list.
func scopesOf(claims map[string]any) []string {
	var all []string
	for _, name := range []string{"scope", "scp"} {
		for _, text := range texts(claims[name]) {
			all = append(all, strings.Fields(text)...)
		}
	}
	return sorted(all)
}

// groupsMissing reports whether the issuer left groups out because they are too many, as Entra does.
func groupsMissing(claims map[string]any, name string) bool {
	elsewhere, _ := claims["_claim_names"].(map[string]any)
	_, byName := elsewhere[name]
	_, usual := elsewhere["groups"]
	return byName || usual || claims["hasgroups"] == true || claims["hasgroups"] == "true"
}

// claimAt returns a claim by its name, or by a path of names with dots. A claim whose own name has
// dots, such as https://weir.example/groups, comes first. The path through a list of objects leads to
// the list of their members.
func claimAt(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	name, rest, ok := strings.Cut(path, ".")
	if !ok {
		return nil
	}
	switch inner := claims[name].(type) {
	case map[string]any:
		return claimAt(inner, rest)
	case []any:
		var all []any
		for _, item := range inner {
			if object, ok := item.(map[string]any); ok {
				all = append(all, claimAt(object, rest))
			}
		}
		return all
	}
	return nil
}

// claimHas reports whether a claim is a value, or a list with it.
func claimHas(claim any, want string) bool {
	switch v := claim.(type) {
	case string:
		return v == want
	case json.Number:
		return v.String() == want
	case bool:
		return fmt.Sprint(v) == want
	case []any:
		return slices.ContainsFunc(v, func(item any) bool {
			_, list := item.([]any)
			return !list && claimHas(item, want)
		})
	}
	return false
}

// texts returns a text, or the texts of a list.
func texts(claim any) []string {
	switch v := claim.(type) {
	case string:
		if v == "" {
			return nil
		}
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			if text, ok := item.(string); ok && text != "" {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// audienceFits reports whether a token is for the path of a request (spec/identity §3).
func (s *state) audienceFits(r *http.Request, v *verified) bool {
	public := s.policy.PublicURL
	own := public + resourcePath(r.URL.Path)
	for _, aud := range v.audiences {
		if aud == own || aud == public || aud == public+"/" || slices.Contains(v.issuer.Audiences, aud) {
			return true
		}
		if r.URL.Path == WhoamiPath && strings.HasPrefix(aud, public+"/") {
			return true
		}
	}
	return false
}
