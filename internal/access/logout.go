package access

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
)

// logoutTime is how old a logout token may be.
const logoutTime = 5 * time.Minute

// maxProof bounds the ID token that a URL shows the issuer again.
const maxProof = 4 << 10

// A Logout is what an issuer says of sessions that have ended there.
type Logout struct {
	// Principal is whose sessions end, and Session the issuer's name of the only one. One of them may be "".
	Principal, Session string
	// ID is the issuer's name of the logout, "" if it has none.
	ID string
}

// EndLogin returns the page of the login's issuer that ends its session with a browser (OpenID Connect RP-Initiated
// Logout), and from where the browser comes to back; "" if the issuer has none. proof is the LoggedIn.Proof.
func (a *Authenticator) EndLogin(ctx context.Context, proof identity.Secret, back string) (address string, err error) {
	l := a.state.Load().login
	if l == nil {
		return "", errNoLogin
	}
	meta, err := l.metadata(ctx)
	if err != nil || meta.EndSession == "" {
		return "", err
	}
	u, err := url.Parse(meta.EndSession)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("client_id", l.ClientID)
	q.Set("post_logout_redirect_uri", back)
	if proof != "" {
		q.Set("id_token_hint", string(proof))
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// LoggedOut checks a logout token of the login's issuer as OpenID Connect Back-Channel Logout says in "Logout Token
// Validation", but not whether it was used before.
func (a *Authenticator) LoggedOut(ctx context.Context, text string) (*Logout, error) {
	s := a.state.Load()
	l := s.login
	if l == nil {
		return nil, errNoLogin
	}
	t, err := parseKind(text, "jwt", "logout+jwt")
	if err != nil {
		return nil, err
	}
	if iss, _ := t.claims["iss"].(string); iss != l.from.Issuer.Issuer {
		return nil, errors.New("it is of another issuer")
	}
	if err := l.from.verifySignature(ctx, t); err != nil {
		return nil, err
	}
	now := a.o.Now()
	if _, err := lifetime(t.claims, now, false); err != nil {
		return nil, err
	}
	events, _ := t.claims["events"].(map[string]any)
	_, event := events["http://schemas.openid.net/event/backchannel-logout"].(map[string]any)
	_, nonce := t.claims["nonce"]
	made, dated := timeOf(t.claims["iat"])
	switch {
	case !slices.Contains(texts(t.claims["aud"]), l.ClientID):
		return nil, errors.New("it is for another client than auth.login.client_id")
	case !event || nonce:
		return nil, errors.New("it is no logout token")
	case !dated || now.Sub(made) > logoutTime || made.Sub(now) > leeway:
		return nil, errors.New("it is too old, or from the future")
	}
	out := &Logout{}
	out.Session, _ = t.claims["sid"].(string)
	out.ID, _ = t.claims["jti"].(string)
	if subject, err := subjectOf(t.claims, l.from); err == nil {
		out.Principal = l.Issuer + ":" + subject
	}
	if out.Principal == "" && out.Session == "" {
		return nil, errors.New("it names neither a person nor a session")
	}
	return out, nil
}
