package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/signin/vault"
)

// Times of refreshes.
const (
	firstWait = time.Second
	maxWait   = 5 * time.Minute
	// refreshTime bounds one refresh, with the wait for other processes that do the same.
	refreshTime = 40 * time.Second
	maxStepUps  = 3
)

// noRefresh is why a sign-in serves no more whose token has ended.
const noRefresh = "the token has ended, and the issuer gave no refresh token"

// patience is the wait after failed refreshes of a credential.
type patience struct {
	failures int
	until    time.Time
	err      error
}

// Token returns the access token of a principal at a server. It refreshes a token of which 80 % of
// the life are over. The error is a *SignInError if the principal has to sign in.
func (c *Client) Token(ctx context.Context, s *Server, principal string) (Access, error) {
	id := s.id(principal)
	found, err := c.current(ctx, s, id)
	if err != nil {
		return Access{}, err
	}
	if !found.signedIn() {
		return c.first(ctx, s, id, found)
	}
	g := found.grant
	stale, dead := g.stale(c.now())
	switch {
	case !stale:
		return g.access(), nil
	case g.Refresh == "" && !s.Flow.Alone():
		if dead {
			return Access{}, &SignInError{Server: s.Name, Reason: noRefresh}
		}
		return g.access(), nil
	}
	token, err := c.again(ctx, s, id, g.Access)
	if err != nil && !dead && !errors.As(err, new(*SignInError)) {
		return g.access(), nil // it still serves
	}
	return token, err
}

// SignedIn reports whether a principal has a token at a server, which may have to be refreshed. It is
// cheap.
func (c *Client) SignedIn(ctx context.Context, s *Server, principal string) bool {
	found, err := c.current(ctx, s, s.id(principal))
	if err != nil || !found.signedIn() || len(found.grant.Wanted) > 0 {
		return false
	}
	_, dead := found.grant.stale(c.now())
	return !dead || found.grant.Refresh != "" || s.Flow.Alone()
}

func signIn(s *Server, found *cached) error {
	if found == nil {
		return &SignInError{Server: s.Name}
	}
	return &SignInError{Server: s.Name, Reason: found.grant.SignedOut}
}

// Renew returns a token in the place of one that the server refused with a challenge. It refreshes
// the token, or adopts one that another process got. If more scopes are asked for, the error is a
// *SignInError, and the next sign-in asks for all of them.
func (c *Client) Renew(ctx context.Context, s *Server, principal string, refused Access, ch Challenge) (Access, error) {
	id := s.id(principal)
	ch = c.asked.note(s, id, ch)
	found, err := c.of(ctx, s, id)
	if err != nil {
		return Access{}, err
	}
	if !found.signedIn() {
		return c.first(ctx, s, id, found)
	}
	g := found.grant
	_, dead := g.stale(c.now())
	switch {
	case g.access().Token != refused.Token && !dead:
		return g.access(), nil // a sibling was faster
	case ch.Error == "insufficient_scope":
		return c.stepUp(ctx, s, id, found, ch)
	case g.Refresh == "" && !s.Flow.Alone():
		why := "the server refuses the token, and the issuer gave no refresh token"
		if dead {
			why = noRefresh
		}
		return Access{}, c.end(ctx, s, id, found, why)
	}
	return c.again(ctx, s, id, g.Access)
}

// first returns a token for a principal without a sign-in: one of client credentials, or the error that
// says how to sign in. The last sign-in may be nil.
func (c *Client) first(ctx context.Context, s *Server, id vault.ID, last *cached) (Access, error) {
	if s.Flow.Alone() {
		return c.again(ctx, s, id, "")
	}
	return Access{}, signIn(s, last)
}

// stepUp notes the scopes that a server asks for in addition.
func (c *Client) stepUp(ctx context.Context, s *Server, id vault.ID, old *cached, ch Challenge) (Access, error) {
	next := *old.grant
	next.Wanted = union(next.Scopes, next.Wanted, ch.Scopes)
	if slices.Equal(next.Wanted, old.grant.Wanted) {
		return Access{}, &SignInError{Server: s.Name, Reason: "it asks for the scopes " + strings.Join(next.Wanted, " ")}
	}
	switch {
	case len(next.Wanted) == len(next.Scopes):
		return Access{}, fmt.Errorf("the server %q refuses the call for want of the scopes %q, which the token has", s.Name, strings.Join(ch.Scopes, " "))
	case next.StepUps >= maxStepUps:
		return Access{}, fmt.Errorf("the server %q has asked for further scopes %d times; sign out and in again to allow more: weir logout %s", s.Name, maxStepUps, s.Name)
	}
	next.StepUps++
	if s.Flow.Alone() {
		free, err := c.unsaved.reserve(id)
		if err != nil {
			return Access{}, err
		}
		defer free()
		g, err := c.machine(ctx, s, id, next.Wanted, next.StepUps)
		if err != nil {
			return Access{}, err
		}
		return g.access(), c.later(id, old, g, c.keep(ctx, id, g))
	}
	if err := c.replace(ctx, id, old.record, &next); err != nil && !errors.Is(err, vault.ErrChanged) {
		return Access{}, err
	}
	return Access{}, &SignInError{Server: s.Name, Reason: "it asks for the scopes " + strings.Join(next.Wanted, " ")}
}

// replace stores a grant if the vault still has the old one.
func (c *Client) replace(ctx context.Context, id vault.ID, old vault.Record, g *grant) error {
	data, err := json.Marshal(g)
	if err == nil {
		err = c.store.Swap(ctx, id, old, vault.Record{Issuer: g.Issuer, Data: data})
	}
	if err == nil {
		c.unsaved.drop(id)
	}
	c.cached.Take(id)
	return err
}

// again gets a new token in the place of used. Callers of this process share one attempt, and the
// vault's lock keeps other processes from making one at the same time.
func (c *Client) again(ctx context.Context, s *Server, id vault.ID, used string) (Access, error) {
	g, err := c.refreshes.do(ctx, id, func(ctx context.Context) (*grant, error) { return c.refreshAlone(ctx, s, id, used) })
	if err != nil {
		return Access{}, err
	}
	return g.access(), nil
}

// refreshAlone refreshes a credential while no other process does.
func (c *Client) refreshAlone(ctx context.Context, s *Server, id vault.ID, used string) (*grant, error) {
	if p, ok := c.waits.Get(id); ok && c.now().Before(p.until) {
		return nil, p.err
	}
	unlock, err := c.store.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	found, err := c.of(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if found != nil && found.grant.SignedOut == "" && found.grant.Access != used {
		if stale, _ := found.grant.stale(c.now()); !stale {
			return found.grant, nil // a sibling has refreshed it
		}
	}
	if !s.Flow.Alone() && (!found.signedIn() || found.grant.Refresh == "") {
		return nil, signIn(s, found)
	}
	free, err := c.unsaved.reserve(id)
	if err != nil {
		return nil, err
	}
	defer free()
	if s.Flow.Alone() {
		g, err := c.machine(ctx, s, id, s.Scopes, 0)
		if err != nil {
			return nil, c.wait(id, err)
		}
		return g, c.later(id, found, g, c.keep(ctx, id, g))
	}
	return c.refresh(ctx, s, id, found)
}

// refresh asks the issuer of a grant for a new token. The caller has the lock of the credential.
func (c *Client) refresh(ctx context.Context, s *Server, id vault.ID, old *cached) (*grant, error) {
	g := old.grant
	r := c.web.reach(s.URL, s.Issuer)
	next, err := c.ask(ctx, s, r, g, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}, g.Scopes)
	if err == nil {
		err = c.later(id, old, next, c.replace(ctx, id, old.record, next))
		if errors.Is(err, vault.ErrChanged) { // a person has signed in or out meanwhile
			return c.adopt(ctx, s, id)
		}
		if err != nil {
			return nil, err
		}
		c.waits.Take(id)
		return next, nil
	}
	err = fmt.Errorf("the authorization server %s did not refresh the token for %q: %w", g.Issuer, s.Name, err)
	if !isCode(err, "invalid_grant") {
		return nil, c.wait(id, err)
	}
	now, lerr := c.of(ctx, s, id)
	if lerr != nil {
		return nil, lerr
	}
	if now != nil && now.grant.Refresh != g.Refresh {
		return c.adopt(ctx, s, id)
	}
	return nil, c.end(ctx, s, id, old, "the authorization server does not accept the earlier sign-in any more")
}

// end stores that a sign-in serves no more, and why. It returns the error that asks for another, or
// the store's.
func (c *Client) end(ctx context.Context, s *Server, id vault.ID, old *cached, why string) error {
	out := *old.grant
	out.Access, out.Refresh, out.Expires, out.SignedOut = "", "", time.Time{}, why
	if err := c.replace(ctx, id, old.record, &out); err != nil && !errors.Is(err, vault.ErrChanged) {
		return err
	}
	return &SignInError{Server: s.Name, Reason: why}
}

// adopt returns the grant that another process has stored.
func (c *Client) adopt(ctx context.Context, s *Server, id vault.ID) (*grant, error) {
	found, err := c.of(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if !found.signedIn() {
		return nil, signIn(s, found)
	}
	return found.grant, nil
}

// wait notes a failed attempt: the next one is made after 1 s to 5 min.
func (c *Client) wait(id vault.ID, err error) error {
	p := patience{err: err}
	if before, ok := c.waits.Get(id); ok {
		p.failures = before.failures
	}
	p.failures++
	p.until = c.now().Add(min(firstWait<<min(p.failures-1, 10), maxWait))
	c.waits.Put(id, &p, 0)
	return err
}

// machine gets a token for weir itself (RFC 6749 §4.4).
func (c *Client) machine(ctx context.Context, s *Server, id vault.ID, scopes []string, stepUps int) (*grant, error) {
	f, r, err := c.discover(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if s.ClientID == "" {
		return nil, fmt.Errorf("mcpServers.%s.oauth.flow %s needs oauth.client_id", s.Name, s.Flow)
	}
	cred, err := s.configured(f)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	for name, value := range s.Params {
		form.Set(name, value)
	}
	if len(scopes) == 0 {
		scopes = wanted(s, f, nil)
	}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	if s.Flow.usesFile() {
		shown, err := readAssertion(s)
		if err != nil {
			return nil, err
		}
		assertion := string(shown)
		if s.Flow == FlowOwnIDJAG {
			if assertion, err = c.identityAssertion(ctx, s, f, r, shown, typeID, scopes); err != nil {
				return nil, err
			}
		}
		form.Set("grant_type", grantAssertion)
		form.Set("assertion", assertion)
	}
	g := newGrant(s, f, cred, s.Flow)
	g.StepUps = stepUps
	if g, err = c.ask(ctx, s, r, g, form, scopes); err != nil {
		return nil, fmt.Errorf("the authorization server %s gave no token for %q: %w", f.Issuer, s.Name, err)
	}
	g.Refresh = "" // weir asks again
	return g, nil
}

// Machine signs weir itself in at a server whose flow needs no person (Flow.Alone).
func (c *Client) Machine(ctx context.Context, s *Server, principal string) error {
	id := s.id(principal)
	g, err := c.machine(ctx, s, id, s.Scopes, 0)
	if err != nil {
		return err
	}
	return c.keep(ctx, id, g)
}
