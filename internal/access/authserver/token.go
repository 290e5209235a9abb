package authserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/store"
)

// Kinds of the tokens of this Server, in their header typ.
const (
	accessKind = "at+jwt" // RFC 9068
	idKind     = "JWT"
)

// answer of tokenPath.
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"`
	Scope   string `json:"scope"`
	Refresh string `json:"refresh_token,omitempty"`
	ID      string `json:"id_token,omitempty"`
}

// token answers tokenPath.
func (x *exchange) token() error {
	form, err := x.posted()
	if err != nil {
		return err
	}
	c, err := x.authenticated(form)
	if err != nil {
		return err
	}
	if c.ID == ownClient { // its codes are for FinishLogin
		return unknownClient("the client is not known here")
	}
	key, err := x.proved(tokenPath)
	if err != nil {
		return err
	}
	ctx, cancel := x.context()
	defer cancel()
	var out *tokens
	switch form.Get("grant_type") {
	case "authorization_code":
		out, err = x.byCode(ctx, c, form, key)
	case "refresh_token":
		out, err = x.byRefresh(ctx, c, form, key)
	case "client_credentials":
		out, err = x.byClient(ctx, c, form, key)
	default:
		err = refused("unsupported_grant_type", "grant_type must be authorization_code, refresh_token or client_credentials")
	}
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, out)
	return nil
}

// invalidGrant refuses a code or a refresh token.
func invalidGrant(why string) error { return refused("invalid_grant", why) }

var errGrantEnded = invalidGrant("the sign-in has ended; sign in again")

// verifierPattern has the characters of RFC 7636 §4.1.
func isVerifier(text string) bool {
	return len(text) >= 43 && len(text) <= 128 && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~", r))
	})
}

// byCode exchanges a code. A code is spent by its first use, also by one that is refused. A second use ends what the
// first one has started.
func (x *exchange) byCode(ctx context.Context, c *Client, form url.Values, key string) (*tokens, error) {
	var held code
	at := codePrefix + store.Hash(form.Get("code"))
	rev, ok, err := x.load(ctx, at, &held)
	switch {
	case err != nil:
		return nil, err
	case !ok || held.Client != c.ID:
		return nil, invalidGrant("the code is not known: it is older than a minute, or was made for another client")
	case held.Spent:
		return nil, x.replayed(ctx, &held)
	}
	held.Spent = true
	if err := x.keep(ctx, at, held, rev, replayTime); errors.Is(err, store.ErrConflict) {
		return nil, x.replayed(ctx, &held)
	} else if err != nil {
		return nil, err
	}
	verifier := form.Get("code_verifier")
	redirect, there := form["redirect_uri"]
	resource := form["resource"]
	switch {
	case !isVerifier(verifier) || issuers.Challenge(verifier) != held.Challenge:
		return nil, invalidGrant("code_verifier does not fit the code_challenge")
	case there && redirect[0] != held.Redirect:
		return nil, invalidGrant("redirect_uri is not the one of the authorization")
	case held.JKT != "" && held.JKT != key:
		return nil, invalidGrant("the code is bound to another key (dpop_jkt)")
	case x.unix()-held.At > int64((signInTime+codeTime)/time.Second):
		return nil, errGrantEnded
	}
	if err := x.sameResource(resource, held.Resource); err != nil {
		return nil, err
	}
	now := x.unix()
	g := &grant{
		ID: held.Grant, Client: c.ID, Person: held.Person, Scopes: held.Scopes, Resource: held.Resource, Made: now, SignedIn: held.At, Looked: now,
		Ends: now + int64(x.p.RefreshTime/time.Second),
	}
	if !c.confidential() {
		g.JKT = key // RFC 9449 §5: the key of a confidential client is its own
	}
	if err := x.grants.start(ctx, g); err != nil {
		return nil, err
	}
	out, err := x.issue(ctx, g, g.Scopes, key, held.Nonce)
	if err != nil {
		return nil, err
	}
	x.o.Tell(identity.With(ctx, g.Person.identity(c.ID)), Issued, "for "+g.Resource)
	return out, nil
}

// replayed ends what the first use of a code has started.
func (x *exchange) replayed(ctx context.Context, held *code) error {
	x.o.Tell(identity.With(ctx, held.Person.identity(held.Client)), Reused, "a code was used twice")
	if err := x.grants.end(ctx, held.Person.Principal, held.Grant); err != nil {
		return err
	}
	return invalidGrant("the code was used before")
}

// sameResource checks the resource of a token request: it may repeat the resource of the grant.
func (x *exchange) sameResource(asked []string, granted string) error {
	if len(asked) == 0 {
		return nil
	}
	audience, err := x.p.audience(asked)
	if err == nil && audience != granted {
		err = refused("invalid_target", "the grant is for another resource")
	}
	return err
}

// byRefresh exchanges a refresh token.
func (x *exchange) byRefresh(ctx context.Context, c *Client, form url.Values, key string) (*tokens, error) {
	id, number, ok := x.grants.readRefresh(form.Get("refresh_token"))
	if !ok {
		return nil, invalidGrant("the refresh token is not known")
	}
	defer x.grants.exclusively(ctx, id)()
	var g grant
	rev, ok, err := x.load(ctx, grantPrefix+id, &g)
	switch {
	case err != nil:
		return nil, err
	case !ok || g.Client != c.ID || x.unix() >= g.Ends || x.grants.ended.has(id):
		return nil, errGrantEnded
	case g.JKT != "" && g.JKT != key:
		return nil, invalidGrant("the refresh token is bound to another key (DPoP)")
	}
	late := number == g.Number-1 && x.unix()-g.Rotated <= graceTime
	if number != g.Number && !late {
		x.o.Tell(identity.With(ctx, g.Person.identity(c.ID)), Reused, "a refresh token was used again")
		if err := x.grants.end(ctx, g.Person.Principal, id); err != nil {
			return nil, err
		}
		return nil, invalidGrant("the refresh token was used before, so the sign-in has ended; sign in again")
	}
	if err := x.sameResource(form["resource"], g.Resource); err != nil {
		return nil, err
	}
	scopes, err := narrowed(g.Scopes, form.Get("scope"))
	if err != nil {
		return nil, err
	}
	if late { // the answer before was lost: the same refresh token again
		return x.issue(ctx, &g, scopes, key, "")
	}
	if err := x.lookAgain(ctx, &g); err != nil {
		return nil, err
	}
	g.Number, g.Rotated = g.Number+1, x.unix()
	err = x.keep(ctx, grantPrefix+id, g, rev, time.Duration(g.Ends-x.unix()+1)*time.Second)
	if errors.Is(err, store.ErrConflict) {
		return nil, &refusal{http.StatusServiceUnavailable, "temporarily_unavailable", "the refresh token is being used at another node; try again"}
	}
	if err != nil {
		return nil, err
	}
	out, err := x.issue(ctx, &g, scopes, key, "")
	if err != nil {
		return nil, err
	}
	x.registered.use(ctx, c.ID)
	x.o.Tell(identity.With(ctx, g.Person.identity(c.ID)), Renewed, "for "+g.Resource)
	return out, nil
}

// narrowed returns the scopes of a refresh: the scopes of the grant, or fewer.
func narrowed(granted []string, asked string) ([]string, error) {
	if strings.TrimSpace(asked) == "" {
		return granted, nil
	}
	var out []string
	for _, scope := range strings.Fields(asked) {
		if slices.Contains(granted, scope) {
			out = append(out, scope)
		}
	}
	if len(out) == 0 {
		return nil, refused("invalid_scope", "the grant has none of these scopes; sign in again for more")
	}
	return out, nil
}

// lookAgain looks a person up again. A person who is gone gets no more tokens.
func (x *exchange) lookAgain(ctx context.Context, g *grant) error {
	person, err := x.person(ctx, g)
	switch {
	case errors.Is(err, ErrGone):
		x.o.Tell(identity.With(ctx, g.Person.identity(g.Client)), Revoked, "the provider does not know the person any more")
		if err := x.grants.end(ctx, g.Person.Principal, g.ID); err != nil {
			return err
		}
		return errGrantEnded
	case err != nil:
		x.log.Warn("a person cannot be looked up at the provider, so a token is not renewed", "principal", g.Person.Principal, "err", err)
		x.w.Header().Set("Retry-After", "10")
		return &refusal{http.StatusServiceUnavailable, "temporarily_unavailable", "the provider where the person signs in cannot be asked now; try again"}
	}
	if person.Principal != g.Person.Principal {
		return errGrantEnded
	}
	g.Person, g.Looked = *person, x.unix()
	return nil
}

// unlookedTime is how long a grant lasts whose provider gives no way to look the person up again.
const unlookedTime = 12 * time.Hour

// person looks up the person of a grant.
func (x *exchange) person(ctx context.Context, g *grant) (*Person, error) {
	switch {
	case g.Person.Issuer == AccountIssuer:
		if account := x.p.account(g.Person.Subject); account != nil && x.p.People == nil {
			return account.person(), nil
		}
		return nil, ErrGone
	case x.p.People == nil || g.Person.Issuer != x.p.People.Name():
		return nil, ErrGone // people sign in elsewhere now
	case g.Person.Refresh == "":
		if x.unix()-g.SignedIn > int64(unlookedTime/time.Second) {
			return nil, ErrGone
		}
		return &g.Person, nil
	}
	return x.p.People.Again(ctx, g.Person)
}

// byClient gives a client a token of its own.
func (x *exchange) byClient(ctx context.Context, c *Client, form url.Values, key string) (*tokens, error) {
	if c.From != configured || !c.confidential() {
		return nil, refused("unauthorized_client", "only a client of auth.server.clients.static with a secret or keys may call without a person")
	}
	audience, err := x.p.audience(form["resource"])
	if err != nil {
		return nil, err
	}
	scopes, err := x.p.scopes(c, form.Get("scope"))
	if err != nil {
		return nil, err
	}
	scopes = slices.DeleteFunc(scopes, func(s string) bool { return s == scopeOpenID || s == scopeOffline })
	g := &grant{Client: c.ID, Person: Person{Principal: ClientIssuer + ":" + c.ID, Issuer: ClientIssuer, Subject: c.ID, Groups: c.Groups}, Resource: audience}
	access, err := x.access(ctx, g, scopes, key)
	if err != nil {
		return nil, err
	}
	x.o.Tell(identity.With(ctx, g.Person.identity(c.ID)), Issued, "to the client itself, for "+audience)
	return &tokens{Access: access, Type: tokenType(key), Expires: int(x.p.AccessTime / time.Second), Scope: strings.Join(scopes, " ")}, nil
}

func tokenType(key string) string {
	if key != "" {
		return "DPoP"
	}
	return "Bearer"
}

// issue makes the tokens of a grant.
func (x *exchange) issue(ctx context.Context, g *grant, scopes []string, key, nonce string) (*tokens, error) {
	access, err := x.access(ctx, g, scopes, key)
	if err != nil {
		return nil, err
	}
	out := &tokens{
		Access: access, Type: tokenType(key), Expires: int(x.p.AccessTime / time.Second), Scope: strings.Join(scopes, " "), Refresh: x.grants.refreshToken(g),
	}
	if slices.Contains(scopes, scopeOpenID) {
		now := x.now()
		claims := jwt.MapClaims{
			"iss": x.p.Issuer, "sub": g.Person.Principal, "aud": g.Client, "iat": now.Unix(), "exp": now.Add(x.p.AccessTime).Unix(),
			"auth_time": g.SignedIn, "sid": g.ID, "at_hash": halfHash(access),
		}
		if nonce != "" {
			claims["nonce"] = nonce
		}
		if out.ID, err = x.keys.sign(ctx, idKind, claims); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// access makes an access token (RFC 9068).
func (x *exchange) access(ctx context.Context, g *grant, scopes []string, key string) (string, error) {
	now := x.now()
	claims := jwt.MapClaims{
		"iss": x.p.Issuer, "sub": g.Person.Principal, "aud": g.Resource, "iat": now.Unix(), "exp": now.Add(x.p.AccessTime).Unix(),
		"jti": rand.Text(), "client_id": g.Client, "scope": strings.Join(scopes, " "),
	}
	if len(g.Person.Groups) > 0 {
		claims["groups"] = g.Person.Groups
	}
	if g.Person.GroupsMissing {
		claims["hasgroups"] = true
	}
	if g.ID != "" {
		claims["sid"], claims["auth_time"] = g.ID, g.SignedIn
	}
	if key != "" {
		claims["cnf"] = map[string]string{"jkt": key}
	}
	return x.keys.sign(ctx, accessKind, claims)
}
