package access

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
)

// LoginWish is what a login asks the issuer for in addition to the person.
type LoginWish struct {
	// Hint is who the person may be (login_hint), "" if that is not known.
	Hint string
	// Offline asks for a refresh token, for RenewLogin. Not every issuer gives one.
	Offline bool
}

// A LoggedIn person is the outcome of a login.
type LoggedIn struct {
	*identity.Identity
	// Refresh is the refresh token of the issuer, "" if it gave none.
	Refresh identity.Secret
	// Proof is the ID token, which EndLogin shows the issuer again; "" if it is too long for a URL.
	Proof identity.Secret
	// Session is the issuer's name of the person's session (sid), "" if it has none.
	Session string
}

// ErrLoginEnded says that the issuer does not renew a login: it does not know the person any more, or has signed the
// person out.
var ErrLoginEnded = errors.New("the issuer does not renew the login")

// endedCodes are answers of issuers that do not renew a login. The last one is GitHub's.
var endedCodes = []string{"invalid_grant", "interaction_required", "access_denied", "bad_refresh_token"}

// googleIssuer has refresh tokens by a parameter of its own.
const googleIssuer = "https://accounts.google.com"

// ask adds a wish to the query of a login.
func (l *login) ask(wish LoginWish, meta *loginMetadata, q url.Values) {
	const scope = "offline_access"
	if wish.Hint != "" {
		q.Set("login_hint", wish.Hint)
	}
	switch {
	case !wish.Offline:
	case l.from.Issuer.Issuer == googleIssuer:
		q.Set("access_type", "offline")
		q.Set("prompt", "consent") // without it, only the first sign-in has a refresh token
	case slices.Contains(meta.Scopes, scope) && !slices.Contains(l.Scopes, scope): // others may refuse the scope
		q.Set("scope", q.Get("scope")+" "+scope)
	}
}

// RenewLogin looks a person up again by the refresh token of a login. The error is ErrLoginEnded if the issuer
// refuses, and another one if it cannot be asked.
func (a *Authenticator) RenewLogin(ctx context.Context, before LoggedIn) (*LoggedIn, error) {
	s := a.state.Load()
	l := s.login
	if l == nil || before.Issuer != l.Issuer {
		return nil, ErrLoginEnded
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout) // a refresh token may be used up
	defer cancel()
	meta, err := l.metadata(ctx)
	if err != nil {
		return nil, err
	}
	var answer *loginAnswer
	if token, lasts := strings.CutPrefix(string(before.Refresh), lastingToken); lasts {
		answer = &loginAnswer{Access: token}
	} else {
		answer, err = l.exchange(ctx, meta, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {string(before.Refresh)}})
	}
	var out *LoggedIn
	switch {
	case err != nil:
	case answer.IDToken != "" && len(l.UserInfo) == 0:
		out, err = s.verifyIDToken(ctx, l, answer.IDToken, nil, a.o.Now())
	default:
		out, err = s.userInfo(ctx, l, meta, answer.Access, a.o.Now())
	}
	var refusal *answerError
	switch {
	case errors.As(err, &refusal) && (refusal.status == http.StatusUnauthorized && refusal.code == "" || slices.Contains(endedCodes, refusal.code)):
		return nil, ErrLoginEnded
	case err != nil:
		return nil, err
	}
	if out.Principal != before.Principal {
		return nil, ErrLoginEnded
	}
	if out.Refresh = identity.Secret(answer.Refresh); out.Refresh == "" {
		out.Refresh = before.Refresh
	}
	if out.Session == "" {
		out.Session = before.Session
	}
	return out, nil
}
