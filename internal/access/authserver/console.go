package authserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/store"
)

// ownClient is the gateway's own pages, where people with accounts sign in by the same form. No other client has the
// name: names of the configuration must not start so, and the others get longer ones.
const ownClient = clientIDPrefix + "pages"

// own returns the client of the gateway's own pages.
func (p *Policy) own() *Client {
	return &Client{ID: ownClient, Name: "This gateway", Redirects: []string{p.Pages}, From: configured}
}

// pagesMemo is what FinishLogin has to know of a login.
type pagesMemo struct{ Verifier string }

var errNoAccounts = errors.New("people of this gateway have no accounts")

// BeginLogin starts a login of a person with an account at the gateway's own pages. It returns the URL to send the
// browser to, the state with which it comes back to Policy.Pages, and the facts that FinishLogin needs.
func (s *Server) BeginLogin() (address, state string, memo identity.Secret, err error) {
	p := s.policy.Load()
	if p == nil || p.People != nil {
		return "", "", "", errNoAccounts
	}
	state = rand.Text()
	m := pagesMemo{Verifier: rand.Text() + rand.Text()}
	raw, err := json.Marshal(m)
	q := url.Values{
		"client_id": {ownClient}, "redirect_uri": {p.Pages}, "response_type": {"code"}, "state": {state}, "resource": {p.Issuer},
		"code_challenge": {issuers.Challenge(m.Verifier)}, "code_challenge_method": {"S256"},
	}
	return p.Issuer + authorizePath + "?" + q.Encode(), state, identity.Secret(raw), err
}

// FinishLogin ends a login with its memo and the query with which the browser came back, whose state the caller has
// compared. It returns an access token of the person for the whole gateway.
func (s *Server) FinishLogin(ctx context.Context, memo identity.Secret, q url.Values) (token string, err error) {
	p := s.policy.Load()
	if p == nil || p.People != nil {
		return "", errNoAccounts
	}
	var m pagesMemo
	if err := json.Unmarshal([]byte(memo), &m); err != nil || q.Get("iss") != p.Issuer {
		return "", errors.New("the login is damaged: start again")
	}
	var held code
	at := codePrefix + store.Hash(q.Get("code"))
	rev, ok, err := s.load(ctx, at, &held)
	if err != nil {
		return "", err
	}
	if !ok || held.Client != ownClient || held.Spent || issuers.Challenge(m.Verifier) != held.Challenge {
		return "", errors.New("the login has ended: start again")
	}
	if err := s.docs.Delete(ctx, at, rev); err != nil {
		return "", err
	}
	x := &exchange{Server: s, p: p}
	return x.access(ctx, &grant{Client: ownClient, Person: held.Person, Resource: p.Issuer, SignedIn: held.At}, p.Scopes, "")
}
