package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

const maxToken = 64 << 10

// grant has the tokens and scopes of a principal at a server, as the vault keeps them.
type grant struct {
	Access  string    `json:"access_token,omitempty"`
	Refresh string    `json:"refresh_token,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Wanted  []string  `json:"wanted,omitempty"` // by a step-up that a person has to agree to
	Issued  time.Time `json:"issued,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // zero: not known

	Issuer   string      `json:"issuer"`
	Token    string      `json:"token_endpoint"`
	Revoke   string      `json:"revocation_endpoint,omitempty"`
	Resource string      `json:"resource,omitempty"`
	Client   credentials `json:"client"`
	Flow     Flow        `json:"flow"`
	Own      bool        `json:"issuer_configured,omitempty"`
	Named    bool        `json:"client_configured,omitempty"`

	// Key is for proofs to the issuer, and to the server if the access token is Bound to it; nil without DPoP.
	Key   *dpop.Key `json:"dpop_key,omitempty"`
	Bound bool      `json:"dpop_bound,omitempty"`

	StepUps   int    `json:"step_ups,omitempty"`
	SignedOut string `json:"signed_out,omitempty"` // why; the tokens are gone
}

// String hides the tokens.
func (*grant) String() string { return "[secret]" }

// GoString hides the tokens.
func (*grant) GoString() string { return "[secret]" }

// cached is a grant with the record that it was read from.
type cached struct {
	grant      *grant
	record     vault.Record
	unreadable string // why the record cannot be read, which the grant stands for; "" if it can
}

// stale reports whether 80 % of a token's life are over, and dead whether all of it is.
func (g *grant) stale(now time.Time) (stale, dead bool) {
	if g.Expires.IsZero() {
		return false, false
	}
	life := g.Expires.Sub(g.Issued)
	return !now.Before(g.Issued.Add(life * 4 / 5)), !now.Before(g.Expires)
}

// newGrant returns a grant at a server without tokens, from the result of discovery.
func newGrant(s *Server, f *found, cred credentials, flow Flow) *grant {
	g := &grant{
		Own: f.configured, Named: s.ClientID != "",
		Issuer: f.Issuer, Token: f.serverMetadata.Token, Revoke: f.Revoke, Resource: f.resource, Client: cred, Flow: flow,
	}
	if f.bindsTokens() {
		g.Key = dpop.NewKey()
	}
	return g
}

// inherit takes over how often the server asked for further scopes of an earlier grant, which may be
// nil.
func (g *grant) inherit(had *cached) {
	if had != nil {
		g.StepUps = had.grant.StepUps
	}
}

// tokenAnswer is the answer of a token endpoint.
type tokenAnswer struct {
	Access  string  `json:"access_token"`
	Type    string  `json:"token_type"`
	Refresh string  `json:"refresh_token"`
	Expires seconds `json:"expires_in"`
	Scope   *string `json:"scope"`
	Issued  string  `json:"issued_token_type"`
}

// seconds is a number that some issuers write as a text.
type seconds float64

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		n = 0 // as if it was left out
	}
	*s = seconds(min(n, 10*365*24*3600))
	return nil
}

// take puts the tokens of an answer into a copy of the grant. scopes are those that were asked for: an
// answer without scope has granted them.
func (g *grant) take(a *tokenAnswer, scopes []string, now time.Time) (*grant, error) {
	bound := strings.EqualFold(a.Type, "DPoP")
	switch {
	case a.Access == "":
		return nil, errors.New("the answer has no access_token")
	case a.Issued != "" && a.Issued != typeAccess && a.Issued != typeJWT:
		return nil, fmt.Errorf("the token is of type %.80q, not an access token", a.Issued)
	case a.Type != "" && !strings.EqualFold(a.Type, "Bearer") && !(bound && g.Key != nil):
		return nil, fmt.Errorf("the token is of type %.40q, and weir asked for a Bearer token", a.Type)
	case len(a.Access) > maxToken || len(a.Refresh) > maxToken || strings.ContainsFunc(a.Access, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the token cannot stand in a header")
	}
	next := *g
	next.Access, next.Issued, next.Expires, next.SignedOut, next.Wanted = a.Access, now, time.Time{}, "", nil
	next.Bound = bound
	if a.Refresh != "" {
		next.Refresh = a.Refresh // an answer without one keeps the old
	}
	if a.Expires > 0 {
		next.Expires = now.Add(time.Duration(float64(a.Expires) * float64(time.Second)))
	}
	next.Scopes = scopes
	if a.Scope != nil {
		next.Scopes = scopesOf(*a.Scope)
	}
	return &next, nil
}

// ask asks the token endpoint of a grant and returns the grant with the answer's tokens.
func (c *Client) ask(ctx context.Context, s *Server, r *reach, g *grant, form url.Values, scopes []string) (*grant, error) {
	if g.Resource != "" {
		form.Set("resource", g.Resource)
	}
	header, err := c.show(s, g.Client, g.Issuer, form)
	if err != nil {
		return nil, err
	}
	var a tokenAnswer
	asked := c.now()
	hidden := []string{string(s.ClientSecret), g.Client.Secret, form.Get("client_assertion"), form.Get("refresh_token"), form.Get("code"), form.Get("code_verifier"), form.Get("device_code"), form.Get("subject_token"), form.Get("assertion")}
	err = c.prove(g, header, func() error { return r.post(ctx, g.Token, form, header, &a, hidden...) })
	if err == nil {
		g, err = g.take(&a, scopes, asked)
	}
	if isCode(err, "invalid_client", "unauthorized_client") {
		c.forgetRegistration(ctx, g.Issuer, g.Client.ID)
	}
	if err != nil {
		return nil, err
	}
	c.inUse(g.Access)
	return g, nil
}

// keep stores a new grant, in the place of whatever there is.
func (c *Client) keep(ctx context.Context, id vault.ID, g *grant) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	for {
		old, err := c.store.Get(ctx, id)
		switch {
		case errors.Is(err, vault.ErrClosed): // no key opens it; it is replaced
			if err := c.store.Delete(ctx, id); err != nil && !errors.Is(err, vault.ErrMissing) {
				return err
			}
			old = vault.Record{}
		case err != nil && !errors.Is(err, vault.ErrMissing):
			return err
		}
		err = c.store.Swap(ctx, id, old, vault.Record{Issuer: g.Issuer, Data: data})
		if !errors.Is(err, vault.ErrChanged) {
			if err == nil {
				c.unsaved.drop(id)
			}
			c.cached.Take(id)
			c.waits.Take(id)
			return err
		}
	}
}

// foreign returns why a grant does not serve under the configuration of a server, "" if it does. A
// browser and a device are the same to it: in both flows a person signs in.
func (s *Server) foreign(g *grant) string {
	entry := "mcpServers." + s.Name + ".oauth"
	switch {
	case s.Issuer != "" && s.Issuer != g.Issuer:
		return fmt.Sprintf("the earlier one was made at %.200s, and %s.issuer is %.200s now", g.Issuer, entry, s.Issuer)
	case s.Issuer == "" && g.Own:
		return fmt.Sprintf("the earlier one was made at %.200s, which %s.issuer does not name any more", g.Issuer, entry)
	case s.ClientID != "" && s.ClientID != g.Client.ID:
		return fmt.Sprintf("the earlier one was made by the client %.100q, and %s.client_id is %.100q now", g.Client.ID, entry, s.ClientID)
	case s.ClientID == "" && g.Named:
		return fmt.Sprintf("the earlier one was made by the client %.100q, which %s.client_id does not name any more", g.Client.ID, entry)
	case s.Flow.Alone() != g.Flow.Alone():
		return fmt.Sprintf("the earlier one was made by the flow %s, and %s.flow is %s now", g.Flow, entry, s.Flow)
	}
	return ""
}

// signedIn reports whether there is a sign-in that has not ended. f may be nil.
func (f *cached) signedIn() bool { return f != nil && f.grant.SignedOut == "" }

// under returns a grant, which may be nil, under the configuration of a server. A grant that does
// not serve there has ended: it has neither tokens nor scopes, and says why.
func (f *cached) under(s *Server) *cached {
	if !f.signedIn() {
		return f
	}
	why := s.foreign(f.grant)
	if why == "" {
		return f
	}
	return &cached{grant: &grant{Issuer: f.grant.Issuer, SignedOut: why}, record: f.record}
}

// of reads the grant of a principal at a server from the vault. It returns nil if there is nothing.
func (c *Client) of(ctx context.Context, s *Server, id vault.ID) (*cached, error) {
	found, err := c.load(ctx, id)
	return found.under(s), err
}

// Ended returns why the earlier sign-in of a principal at a server does not serve any more. It is ""
// if the sign-in serves, and if there was none.
func (c *Client) Ended(ctx context.Context, s *Server, principal string) string {
	found, err := c.of(ctx, s, s.id(principal))
	if err != nil || found == nil {
		return ""
	}
	return found.grant.SignedOut
}

// later returns the outcome of storing a grant in the place of found, which may be nil. A grant that
// the store did not take serves from memory until it does.
func (c *Client) later(id vault.ID, found *cached, g *grant, err error) error {
	if err == nil || errors.Is(err, vault.ErrChanged) {
		return err
	}
	var old vault.Record
	if found != nil {
		old = found.record
	}
	if !c.unsaved.add(id, old, g, err) {
		return err
	}
	c.cached.Take(id)
	return nil
}

// load reads a grant from the vault. It returns nil if there is none.
func (c *Client) load(ctx context.Context, id vault.ID) (*cached, error) {
	r, err := c.store.Get(ctx, id)
	if found := c.unsaved.newest(id, r, err); found != nil {
		c.cached.Put(id, found, 0)
		return found, nil
	}
	if errors.Is(err, vault.ErrMissing) {
		c.cached.Put(id, nil, 0)
		return nil, nil
	}
	g := &grant{}
	switch {
	case errors.Is(err, vault.ErrClosed):
		return c.unreadable(id, "no key opens it", "no key opens the earlier one; put its key back (credentials.keys, or the secret WEIR_CREDENTIALS_KEY) or sign in again"), nil
	case err != nil:
		return nil, fmt.Errorf("the sign-in at %q cannot be read: %w", ServerName(id), err)
	case json.Unmarshal(r.Data, g) != nil || g.Issuer != r.Issuer:
		return c.unreadable(id, "it is damaged", "the earlier one is damaged in the store; sign in again"), nil
	}
	if g.Access != "" {
		c.inUse(g.Access)
	}
	found := &cached{grant: g, record: r}
	c.cached.Put(id, found, 0)
	return found, nil
}

// unreadable returns a grant that has ended, in the place of a record that cannot be read. reason is
// for the person, and why for an error about the record. The next sign-in replaces the record.
func (c *Client) unreadable(id vault.ID, why, reason string) *cached {
	found := &cached{grant: &grant{SignedOut: reason}, unreadable: why}
	c.cached.Put(id, found, 0)
	return found
}

// current is of, with an answer that may be cachedTime old.
func (c *Client) current(ctx context.Context, s *Server, id vault.ID) (*cached, error) {
	if found, ok := c.cached.Get(id); ok {
		return found.under(s), nil
	}
	return c.of(ctx, s, id)
}

// access returns what requests to the server of a grant show.
func (g *grant) access() Access {
	a := Access{Token: identity.Secret(g.Access)}
	if g.Bound {
		a.key = g.Key
	}
	return a
}
