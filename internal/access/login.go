package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/identity"
)

// Login is weir's own client at an issuer. It lets people say who they are in a browser.
type Login struct {
	// Issuer is the name of an Issuer of the Policy.
	Issuer                 string
	ClientID, ClientSecret string
	// Scopes are asked for in addition to openid.
	Scopes []string
	// UserInfo are URLs that say who the person of an access token is, for an issuer without ID tokens: the claims, and
	// lists that become claims by the last name of their path. openid is not asked for then.
	UserInfo []string
}

// loginMetadata is the part of an issuer's metadata that a login needs.
type loginMetadata struct {
	Issuer     string   `json:"issuer"`
	Authorize  string   `json:"authorization_endpoint"`
	Token      string   `json:"token_endpoint"`
	UserInfo   string   `json:"userinfo_endpoint"`
	EndSession string   `json:"end_session_endpoint"`
	Scopes     []string `json:"scopes_supported"`
	NamesIss   bool     `json:"authorization_response_iss_parameter_supported"`
	Methods    []string `json:"token_endpoint_auth_methods_supported"`
	Challenges []string `json:"code_challenge_methods_supported"`
}

// login is a Login with the metadata of its issuer.
type login struct {
	Login
	from *issuer
	asks source

	ring *keyRing // owns the fetches

	mu      sync.Mutex // guards below; ring.mu may be taken while it is held
	meta    *loginMetadata
	fetched time.Time     // of meta
	tried   time.Time     // start of the last fetch
	running chan struct{} // nil: no fetch runs
}

// loginMetadataTime is how long the metadata of an issuer is kept.
const loginMetadataTime = 5 * time.Minute

// BeganLogin is a login whose browser is at the issuer.
type BeganLogin struct {
	// Address is where the browser goes, and State the text with which it comes back.
	Address, State string
	// Memo is the state for FinishLogin. The browser must not be able to read or to choose it.
	Memo identity.Secret
}

// memo is the content of a Memo.
type memo struct {
	Nonce, Verifier, Redirect string
}

var errNoLogin = errors.New("this gateway has no login for browsers (auth.login)")

// BeginLogin starts a login of a browser that comes back to redirect. The caller binds State to the
// browser. The errors are of mcp.KindIdentityUnavailable if the issuer cannot be asked.
func (a *Authenticator) BeginLogin(ctx context.Context, redirect string, wish LoginWish) (*BeganLogin, error) {
	l := a.state.Load().login
	if l == nil {
		return nil, errNoLogin
	}
	meta, err := l.metadata(ctx)
	if err != nil {
		return nil, err
	}
	m := memo{Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Redirect: redirect}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	b := &BeganLogin{State: rand.Text(), Memo: identity.Secret(text)}
	u, err := url.Parse(meta.Authorize)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": l.ClientID, "redirect_uri": redirect, "state": b.State, "nonce": m.Nonce,
		"scope":          strings.Join(l.asked(), " "),
		"code_challenge": issuers.Challenge(m.Verifier), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	l.ask(wish, meta, q)
	u.RawQuery = q.Encode()
	b.Address = u.String()
	return b, nil
}

// FinishLogin ends a login with its Memo and the query with which the browser came back, whose state the
// caller has compared. The identity has no scopes and no bearer token: an ID token is only for weir.
func (a *Authenticator) FinishLogin(ctx context.Context, text identity.Secret, q url.Values) (*LoggedIn, error) {
	s := a.state.Load()
	l := s.login
	if l == nil {
		return nil, errNoLogin
	}
	var m memo
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Nonce == "" {
		return nil, errors.New("the login is damaged: begin again")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout) // a code is used up even if the browser leaves
	defer cancel()
	meta, err := l.metadata(ctx)
	if err != nil {
		return nil, err
	}
	switch iss := q.Get("iss"); { // RFC 9207
	case q.Has("iss") && iss != meta.Issuer, !q.Has("iss") && meta.NamesIss:
		return nil, fmt.Errorf("the answer names the issuer %.200q, and the login was begun at %q: it is refused", iss, meta.Issuer)
	case q.Get("error") != "":
		return nil, fmt.Errorf("the issuer %q refused the login: %.80q", l.Issuer, q.Get("error"))
	case q.Get("code") == "":
		return nil, errors.New("the browser came back without a code: begin again")
	}
	answer, err := l.exchange(ctx, meta, url.Values{
		"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "redirect_uri": {m.Redirect}, "code_verifier": {m.Verifier},
	})
	var out *LoggedIn
	switch {
	case err == nil && len(l.UserInfo) > 0:
		if out, err = s.userInfo(ctx, l, meta, answer.Access, a.o.Now()); err != nil {
			return nil, fmt.Errorf("the person of the issuer %q is not accepted: %w", l.Issuer, err)
		}
		if answer.Refresh == "" {
			answer.Refresh = lastingToken + answer.Access
		}
	case err == nil && answer.IDToken == "":
		err = errors.New("its answer has no id_token; the client must be one of OpenID Connect, or auth.login.userinfo says who the person is")
		fallthrough
	case err != nil:
		return nil, fmt.Errorf("the issuer %q gave no ID token: %w", l.Issuer, err)
	default:
		if out, err = s.verifyIDToken(ctx, l, answer.IDToken, &m.Nonce, a.o.Now()); err != nil {
			return nil, fmt.Errorf("the ID token of the issuer %q is not accepted: %w", l.Issuer, err)
		}
	}
	out.Refresh = identity.Secret(answer.Refresh)
	return out, nil
}

// asked returns the scopes that every login asks for.
func (l *login) asked() []string {
	if len(l.UserInfo) > 0 {
		return l.Scopes
	}
	return append([]string{"openid"}, l.Scopes...)
}

// metadata returns the metadata of the issuer. It fetches it if it is not fresh, once for all callers, and
// not again at once after a failure. The error is of mcp.KindIdentityUnavailable.
func (l *login) metadata(ctx context.Context) (*loginMetadata, error) {
	now := l.ring.o.Now()
	l.mu.Lock()
	if l.meta != nil && now.Sub(l.fetched) < loginMetadataTime {
		defer l.mu.Unlock()
		return l.meta, nil
	}
	if l.running == nil && (l.tried.IsZero() || now.Sub(l.tried) >= firstRetry) {
		l.start(now)
	}
	running := l.running
	l.mu.Unlock()
	if running != nil {
		await(ctx, running, fetchTimeout)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.meta == nil || l.ring.o.Now().Sub(l.fetched) >= loginMetadataTime {
		return nil, unavailable(l.Issuer, firstRetry)
	}
	return l.meta, nil
}

// start starts a fetch in the background. The caller holds mu.
func (l *login) start(now time.Time) {
	done := make(chan struct{})
	l.tried, l.running = now, done
	started := l.ring.run(func() {
		ctx, cancel := context.WithTimeout(l.ring.ctx, fetchTimeout)
		defer cancel()
		meta, err := l.fetch(ctx)
		if err != nil {
			l.ring.o.Logger.Warn("the metadata for logins cannot be fetched", "issuer", l.Issuer, "err", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running = nil; err == nil {
			l.meta, l.fetched = meta, l.ring.o.Now()
		}
		close(done)
	})
	if !started {
		l.running = nil
	}
}

func (l *login) fetch(ctx context.Context) (meta *loginMetadata, err error) {
	err = l.asks.metadata(ctx, l.from.Issuer.Issuer, func(raw []byte) (err error) {
		if meta, err = readLoginMetadata(raw, l.from.Issuer.Issuer); err != nil {
			return err
		}
		if meta.EndSession != "" && (!secureURL(meta.EndSession, meta.Issuer) || l.asks.allows(meta.EndSession) != nil) {
			meta.EndSession = "" // a login works without it
		}
		return errors.Join(l.asks.allows(meta.Authorize), l.asks.allows(meta.Token))
	})
	return meta, err
}

// readLoginMetadata reads metadata of this very issuer; see keysURL.
func readLoginMetadata(raw []byte, issuer string) (*loginMetadata, error) {
	var meta loginMetadata
	if err := json.Unmarshal(raw, &meta); err != nil {
		return nil, errors.New("the metadata is not JSON")
	}
	if meta.Issuer != issuer {
		return nil, otherIssuer(meta.Issuer, issuer)
	}
	if !secureURL(meta.Authorize, issuer) || !secureURL(meta.Token, issuer) {
		return nil, errors.New("authorization_endpoint or token_endpoint is missing, or not https")
	}
	if meta.Challenges != nil && !slices.Contains(meta.Challenges, "S256") {
		return nil, errors.New("the issuer has no PKCE by S256")
	}
	return &meta, nil
}

// loginAnswer is the answer of a token endpoint.
type loginAnswer struct {
	IDToken string `json:"id_token"`
	Refresh string `json:"refresh_token"`
	Access  string `json:"access_token"`
	Error   string `json:"error"` // of GitHub, with the status 200
}

// exchange asks the token endpoint of the issuer.
func (l *login) exchange(ctx context.Context, meta *loginMetadata, form url.Values) (*loginAnswer, error) {
	form.Set("client_id", l.ClientID)
	// RFC 8414 §2 has Basic as the default; servers without OpenID Connect often take the form only, and say nothing.
	basic := l.ClientSecret != "" && (len(meta.Methods) == 0 && len(l.UserInfo) == 0 || slices.Contains(meta.Methods, "client_secret_basic"))
	if l.ClientSecret != "" && !basic {
		form.Set("client_secret", l.ClientSecret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, meta.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		r.SetBasicAuth(url.QueryEscape(l.ClientID), url.QueryEscape(l.ClientSecret)) // RFC 6749 §2.3.1
	}
	raw, _, err := l.asks.do(r)
	if err != nil {
		return nil, err
	}
	var answer loginAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, errors.New("its answer is not JSON")
	}
	if answer.Error != "" {
		return nil, &answerError{meta.Token, http.StatusBadRequest, answer.Error}
	}
	return &answer, nil
}

// verifyIDToken checks an ID token as OpenID Connect Core says in "ID Token Validation". A nil nonce is for the answer
// to a refresh token, which may have none.
func (s *state) verifyIDToken(ctx context.Context, l *login, text string, nonce *string, now time.Time) (*LoggedIn, error) {
	t, err := parseJWT(text)
	if err != nil {
		return nil, err
	}
	if iss, _ := t.claims["iss"].(string); iss != l.from.Issuer.Issuer {
		return nil, errors.New("it is of another issuer")
	}
	if err := l.from.verifySignature(ctx, t); err != nil {
		return nil, err
	}
	audiences := texts(t.claims["aud"])
	party, named := t.claims["azp"]
	switch got, _ := t.claims["nonce"].(string); {
	case !slices.Contains(audiences, l.ClientID), named && party != l.ClientID, len(audiences) > 1 && !named:
		return nil, errors.New("it is for another client than auth.login.client_id")
	case nonce != nil && subtle.ConstantTimeCompare([]byte(got), []byte(*nonce)) != 1:
		return nil, errors.New("its nonce is of another login")
	}
	v, err := s.identify(l.from, t.claims, now, true)
	if err != nil {
		return nil, err
	}
	v.id.Scopes = nil
	out := &LoggedIn{Identity: v.id}
	if len(text) <= maxProof {
		out.Proof = identity.Secret(text)
	}
	out.Session, _ = t.claims["sid"].(string)
	return out, nil
}
