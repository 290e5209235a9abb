package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/mcp"
)

// Grant types and token types of RFC 8693, RFC 7523 and the Identity Assertion JWT Authorization Grant.
const (
	grantExchange  = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantAssertion = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	typeAccess     = "urn:ietf:params:oauth:token-type:access_token"
	typeID         = "urn:ietf:params:oauth:token-type:id_token"
	typeJWT        = "urn:ietf:params:oauth:token-type:jwt"
	typeIDJAG      = "urn:ietf:params:oauth:token-type:id-jag"
)

// Subject is a caller for whom weir asks an issuer for a token.
type Subject struct {
	Principal string
	// Grant is identity.Identity.Grant: the rights of a token depend on the client of the caller, so a
	// token that was got for one grant never serves another.
	Grant  string
	Issuer string // the configured name of the issuer of Token, for messages
	Token  identity.Secret
}

// Provider is the identity provider that vouches for the callers of a server (FlowIDJAG). It has the
// keys of Server.
type Provider struct {
	Issuer, ClientID string
	ClientSecret     identity.Secret
	PrivateKey       identity.Secret
}

// FromCaller reports whether the flow gets a token for the token that a caller shows weir.
func (f Flow) FromCaller() bool {
	return f == FlowTokenExchange || f == FlowOnBehalfOf || f == FlowIDJAG
}

// Alone reports whether weir signs in by itself, without a person and without the token of a caller.
func (f Flow) Alone() bool {
	return f == FlowClientCredentials || f == FlowJWTBearer || f == FlowOwnIDJAG
}

// usesFile reports whether the flow starts with the JWT of AssertionFile. In the other flows the JWT
// authenticates the client.
func (f Flow) usesFile() bool { return f == FlowJWTBearer || f == FlowOwnIDJAG }

// Exchanger exchanges tokens of callers, and keeps the new ones only in memory. All methods are safe
// for concurrent use.
//
//	subject ─▶ kept, under 80 % of its life? ─▶ token
//	              └──▶ one request at a time for a principal, grant and server ─▶ keep
//	failed ─▶ the same subject waits: 1 s, 2 s, … 5 min
type Exchanger struct {
	client *Client
	tokens *bounded.Map[vault.ID, *grant]
	failed *bounded.Map[vault.ID, *failedExchange]
}

// failedExchange is a failure, and the subject token to which it applies.
type failedExchange struct {
	subject [sha256.Size]byte
	patience
}

// NewExchanger returns an Exchanger that makes its requests as a Client does. It ends with the Client.
func NewExchanger(c *Client) *Exchanger {
	return &Exchanger{
		client: c,
		tokens: bounded.New(bounded.Options[vault.ID, *grant]{MaxCount: maxCached, Now: c.now}),
		failed: bounded.New(bounded.Options[vault.ID, *failedExchange]{MaxCount: maxCached, TTL: maxWait, Now: c.now}),
	}
}

// exchangeID names the token of a subject at a server. It is never an ID of the vault.
func exchangeID(s *Server, sub *Subject) vault.ID {
	return vault.ID{Kind: "exchange", Principal: sub.Principal + "\x00" + sub.Grant, Server: strings.Join([]string{
		s.key(), string(s.Flow), s.Issuer, s.ClientID, s.Resource, s.Audience, s.Provider.Issuer, strings.Join(s.Scopes, "+"),
	}, " ")}
}

// Token returns a token of a caller at a server. refused is one that the server did not take, or "".
// The scopes come from the configuration: no person agrees to an exchange, so the server does not
// choose the rights of the token. The error is an *mcp.Error for the caller (spec/signin §11).
func (e *Exchanger) Token(ctx context.Context, s *Server, sub Subject, refused Access) (Access, error) {
	for range maxJoins {
		if token, own, err := e.get(ctx, s, &sub, refused); own || ctx.Err() != nil {
			return token, err
		}
		// The request of another caller was with another subject token, perhaps.
	}
	token, _, err := e.get(ctx, s, &sub, refused)
	return token, err
}

// maxJoins is how many requests of others a caller waits for before it takes the outcome of one.
const maxJoins = 3

// get returns the kept token, or the token of a request to the issuer. own is false if another call
// has made the request: its outcome may not be the answer to this one.
func (e *Exchanger) get(ctx context.Context, s *Server, sub *Subject, refused Access) (token Access, own bool, err error) {
	id := exchangeID(s, sub)
	had, ok := e.tokens.Get(id)
	var dead bool
	if ok {
		var stale bool
		stale, dead = had.stale(e.client.now())
		if !stale && had.access().Token != refused.Token {
			return had.access(), true, nil
		}
	}
	sum := sha256.Sum256([]byte(sub.Token))
	if f, ok := e.failed.Get(id); ok && f.subject == sum && e.client.now().Before(f.until) {
		token, err = keptOr(had, refused, dead, f.err)
		return token, true, err
	}
	var began atomic.Bool
	g, err := e.client.refreshes.do(ctx, id, func(ctx context.Context) (*grant, error) {
		began.Store(true)
		g, err := e.exchange(ctx, s, sub)
		if err != nil {
			err = exchangeError(s, sub, err)
			e.noteFailed(id, sum, err)
			return nil, err
		}
		e.failed.Take(id)
		e.tokens.Put(id, g, 0)
		return g, nil
	})
	if err != nil {
		token, err = keptOr(had, refused, dead, err)
		return token, began.Load(), err
	}
	return g.access(), began.Load(), nil
}

// keptOr returns the token that was there before a failure, as long as it serves, else the failure. A
// refusal of the issuer ends the use of the earlier token.
func keptOr(had *grant, refused Access, dead bool, err error) (Access, error) {
	if had == nil || dead || had.access().Token == refused.Token || errors.As(err, new(*SignInError)) {
		return Access{}, err
	}
	return had.access(), nil
}

// noteFailed makes further attempts with the same subject token wait.
func (e *Exchanger) noteFailed(id vault.ID, subject [sha256.Size]byte, err error) {
	next := &failedExchange{subject: subject}
	if before, ok := e.failed.Get(id); ok && before.subject == subject {
		next.failures = before.failures
	}
	next.failures++
	next.err, next.until = err, e.client.now().Add(min(firstWait<<min(next.failures-1, 10), maxWait))
	e.failed.Put(id, next, 0)
}

// Forget drops the exchanged tokens.
func (e *Exchanger) Forget() {
	e.tokens.Clear()
	e.failed.Clear()
}

// exchange asks for a token of a caller at a server.
func (e *Exchanger) exchange(ctx context.Context, s *Server, sub *Subject) (*grant, error) {
	f, r, err := e.client.discover(ctx, s, exchangeID(s, sub))
	if err != nil {
		return nil, err
	}
	cred, err := s.configured(f)
	if err != nil {
		return nil, err
	}
	form := url.Values{}
	for name, value := range s.Params {
		form.Set(name, value)
	}
	g := newGrant(s, f, cred, s.Flow)
	switch s.Flow {
	case FlowOnBehalfOf:
		form.Set("grant_type", grantAssertion)
		form.Set("requested_token_use", "on_behalf_of")
		form.Set("assertion", string(sub.Token))
		g.Resource = "" // the scopes name it
	case FlowIDJAG:
		assertion, err := e.client.identityAssertion(ctx, s, f, r, sub.Token, typeAccess, s.Scopes)
		if err != nil {
			return nil, err
		}
		form.Set("grant_type", grantAssertion)
		form.Set("assertion", assertion)
	default:
		form.Set("grant_type", grantExchange)
		form.Set("subject_token", string(sub.Token))
		form.Set("subject_token_type", typeAccess)
		form.Set("requested_token_type", typeAccess)
		if s.Audience != "" {
			form.Set("audience", s.Audience)
		}
	}
	if len(s.Scopes) > 0 {
		form.Set("scope", strings.Join(s.Scopes, " "))
	}
	if g, err = e.client.ask(ctx, s, r, g, form, s.Scopes); err != nil {
		return nil, &atIssuer{f.Issuer, err}
	}
	g.Refresh = "" // the next token is got for the next token of the caller
	return g, nil
}

// identityAssertion asks the identity provider for an identity assertion (ID-JAG) that the
// authorization server of a server takes. subject is a token of the type kind (RFC 8693 §3).
func (c *Client) identityAssertion(ctx context.Context, s *Server, f *found, r *reach, subject identity.Secret, kind string, scopes []string) (string, error) {
	idp := &Server{Name: s.Name, URL: s.URL, Issuer: s.Provider.Issuer, ClientID: s.Provider.ClientID, ClientSecret: s.Provider.ClientSecret, PrivateKey: s.Provider.PrivateKey}
	meta, err := r.issuer(ctx, idp.Issuer)
	if err == nil && meta.Token == "" {
		err = errors.New("its metadata have no token_endpoint")
	}
	if err != nil {
		return "", fmt.Errorf("the identity provider %.200s of %q: %w", idp.Issuer, s.Name, err)
	}
	cred, err := idp.configured(&found{serverMetadata: *meta})
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {grantExchange}, "requested_token_type": {typeIDJAG}, "audience": {f.Issuer},
		"subject_token": {string(subject)}, "subject_token_type": {kind},
	}
	if f.resource != "" {
		form.Set("resource", f.resource)
	}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	header, err := c.show(idp, cred, idp.Issuer, form)
	if err != nil {
		return "", err
	}
	var a tokenAnswer
	err = r.post(ctx, meta.Token, form, header, &a, string(subject), string(idp.ClientSecret), form.Get("client_assertion"))
	switch {
	case err != nil:
	case a.Issued != typeIDJAG:
		err = fmt.Errorf("it issued a token of type %.80q, not an identity assertion (%s)", a.Issued, typeIDJAG)
	case strings.Count(a.Access, ".") != 2 || len(a.Access) > maxToken:
		err = errors.New("the identity assertion is not a JWT")
	}
	if err != nil {
		return "", &atIssuer{idp.Issuer, err}
	}
	return a.Access, nil
}

// atIssuer is an error of a token endpoint, with the issuer that it is of.
type atIssuer struct {
	issuer string
	err    error
}

func (e *atIssuer) Error() string {
	return fmt.Sprintf("the issuer %.200s gives no token: %v", e.issuer, e.err)
}

func (e *atIssuer) Unwrap() error { return e.err }

// Errors of issuers, by the party that mends them (RFC 6749 §5.2, RFC 8693 §2.2.2, OpenID Connect Core
// §3.1.2.6).
var (
	personMends = []string{"interaction_required", "login_required", "consent_required", "account_selection_required"}
	ownerMends  = []string{"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_request"}
	issuerMends = []string{"invalid_target", "invalid_scope", "access_denied", "invalid_resource"}
)

// exchangeError returns the error that the caller gets. An issuer that cannot be asked is not the
// caller's fault: it may try again.
func exchangeError(s *Server, sub *Subject, err error) error {
	var f *failure
	if errors.As(err, &f) && f.status < 500 && f.status != 429 && f.code != "" && f.code != "temporarily_unavailable" && f.code != "server_error" {
		refused := &SignInError{Server: s.Name, Reason: err.Error(), Claims: f.claims}
		switch {
		case slices.Contains(personMends, f.code):
			refused.Fix = fmt.Sprintf("sign in again at %s with the client that calls weir (%s), and call with the new token", sub.Issuer, f.code)
		case slices.Contains(ownerMends, f.code):
			refused.Fix = fmt.Sprintf("the operator of weir checks mcpServers.%s.oauth and what the issuer allows its client", s.Name)
		case slices.Contains(issuerMends, f.code):
			refused.Fix = "the administrator of the issuer decides who may call this server, and with which scopes"
		default:
			refused.Fix = fmt.Sprintf("call with a new access token of %s; if that fails, too, its administrator checks what weir's client may exchange", sub.Issuer)
		}
		return refused.Refused()
	}
	return &mcp.Error{Kind: mcp.KindIdentityUnavailable, Message: fmt.Sprintf("the server %q: no token for it can be got now; try again: %v", s.Name, err), Err: err}
}
