package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/identity"
)

// pending is a sign-in that waits for a browser to come back.
type pending struct {
	server    *Server
	principal string
	found     *found
	grant     *grant
	reach     *reach
	redirect  string
	tail      string // of the redirect's path: "" or the issuer's
	verifier  identity.Secret
	scopes    []string
}

// wanted returns the scopes to ask for: the scopes of the challenge, else of the configuration, else
// of the server's metadata, together with the scopes that the principal has (spec/signin §3).
func wanted(s *Server, f *found, had *cached) []string {
	first := f.challenge.Scopes
	if len(first) == 0 {
		first = s.Scopes
	}
	if len(first) == 0 {
		first = f.scopes
	}
	if had == nil {
		return union(first)
	}
	return union(first, had.grant.Scopes, had.grant.Wanted)
}

// Begin starts a sign-in of a principal and returns the URL to open in the browser of that principal.
// The browser comes back to redirect, or to a path below it that is the issuer's, with the state in its
// query. The caller hands both to [Client.Finish] within 10 minutes.
func (c *Client) Begin(ctx context.Context, s *Server, principal, redirect string) (address, state string, err error) {
	if s.Flow.Alone() || s.Flow.FromCaller() {
		return "", "", fmt.Errorf("weir signs in at %q by itself (mcpServers.%[1]s.oauth.flow): no person does", s.Name)
	}
	byBrowser := *s
	byBrowser.Flow = FlowCode
	s = &byBrowser
	f, r, err := c.discover(ctx, s, s.id(principal))
	if err != nil {
		return "", "", err
	}
	tail := ""
	switch {
	case s.ClientID == "":
		tail = tailOf(f.Issuer)
		redirect += tail
	case s.Issuer == "":
		return "", "", fmt.Errorf("mcpServers.%s.oauth has a client_id, and no oauth.issuer that knows it; if %.200s is right, write oauth.issuer: %[2]q", s.Name, f.Issuer)
	}
	cred, err := c.clientFor(ctx, s, f, r, redirect)
	if err != nil {
		return "", "", err
	}
	had, err := c.of(ctx, s, s.id(principal))
	if err != nil {
		had = nil // a record that cannot be read is replaced
	}
	verifier := rand.Text() + rand.Text()
	state = rand.Text()
	p := &pending{
		server: s, principal: principal, found: f, reach: r, grant: newGrant(s, f, cred, FlowCode), redirect: redirect, tail: tail,
		verifier: identity.Secret(verifier), scopes: wanted(s, f, had),
	}
	p.grant.inherit(had)
	u, err := url.Parse(f.Authorize)
	if err != nil {
		return "", "", err
	}
	q := u.Query()
	for name, value := range s.Params {
		q.Set(name, value)
	}
	q.Set("response_type", "code")
	q.Set("client_id", cred.ID)
	q.Set("redirect_uri", redirect)
	q.Set("state", state)
	q.Set("code_challenge", issuers.Challenge(verifier))
	q.Set("code_challenge_method", "S256")
	if f.resource != "" {
		q.Set("resource", f.resource)
	}
	if p.grant.Key != nil {
		q.Set("dpop_jkt", p.grant.Key.Thumbprint())
	}
	if len(p.scopes) > 0 {
		q.Set("scope", strings.Join(p.scopes, " "))
	}
	u.RawQuery = q.Encode()
	c.pending.Put(state, p, 0)
	return u.String(), state, nil
}

// Finish ends a sign-in with the query with which the browser of a principal came back. tail is the part
// of the path behind the redirect of [Client.Begin]. A query can be used once. The error wraps errState
// if no sign-in of the principal waits for it.
func (c *Client) Finish(ctx context.Context, principal, tail string, q url.Values) (server string, err error) {
	p, ok := c.pending.Take(q.Get("state"))
	if !ok || p.principal != principal {
		return "", errState
	}
	name := p.server.Name
	if err := p.checkIssuer(tail, q); err != nil {
		return name, err
	}
	if code := q.Get("error"); code != "" {
		return name, fmt.Errorf("the authorization server %s refused the sign-in at %q: %w", p.found.Issuer, name,
			&failure{code: shown(code, 80, nil), description: shown(q.Get("error_description"), 300, nil)})
	}
	if q.Get("code") == "" {
		return name, errors.New("the browser came back without a code: begin again")
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "redirect_uri": {p.redirect}, "code_verifier": {string(p.verifier)}}
	g, err := c.ask(ctx, p.server, p.reach, p.grant, form, p.scopes)
	if err != nil {
		return name, fmt.Errorf("the authorization server %s gave no token for %q: %w", p.found.Issuer, name, err)
	}
	return name, c.keep(ctx, p.server.id(principal), g)
}

// checkIssuer checks which issuer answers (RFC 9207). Many issuers do not name themselves, so each has a
// redirect of its own (RFC 9700 §4.4.2): an issuer that sends the browser on to another one gets no code
// of that one.
func (p *pending) checkIssuer(tail string, q url.Values) error {
	switch iss := q.Get("iss"); {
	case tail != p.tail:
		return fmt.Errorf("the answer came to the address of another issuer than %q, at which the sign-in was begun: it is refused", p.found.Issuer)
	case q.Has("iss") && iss != p.found.Issuer:
		return fmt.Errorf("the answer is of the issuer %.200q, and the sign-in was begun at %q: it is refused", iss, p.found.Issuer)
	case !q.Has("iss") && p.found.NamesIssuer:
		return fmt.Errorf("the answer does not name its issuer, which %q always does: it is refused", p.found.Issuer)
	}
	return nil
}
