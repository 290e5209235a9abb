package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/signin/vault"
)

// ErrNotRevoked says that a credential was removed here, and that its tokens may still serve at their
// issuer.
var ErrNotRevoked = errors.New("its tokens are not revoked")

// SignOut removes the credential that a store has under id, and revokes its tokens at their issuer
// (RFC 7009). It waits for a refresh of the credential, also one of another process. If the tokens
// cannot be revoked, the credential is removed nevertheless and the error wraps ErrNotRevoked. The error
// wraps vault.ErrMissing if there is no credential. After any other error the credential is there.
func (c *Client) SignOut(ctx context.Context, id vault.ID) error {
	name := ServerName(id)
	waiting, cancel := context.WithTimeout(ctx, 2*refreshTime)
	defer cancel()
	unlock, err := c.store.Lock(waiting, id)
	if err != nil {
		return fmt.Errorf("the sign-in at %q cannot be removed: %w", name, err)
	}
	defer unlock()
	found, err := c.load(ctx, id)
	if err == nil && found == nil {
		return vault.ErrMissing
	}
	if derr := c.store.Delete(ctx, id); derr != nil {
		return fmt.Errorf("the sign-in at %q cannot be removed: %w", name, derr)
	}
	c.unsaved.drop(id)
	c.cached.Take(id)
	c.asked.last.Take(id)
	if err == nil && found.unreadable != "" {
		err = errors.New(found.unreadable)
	}
	if err == nil {
		err = c.revoke(ctx, id, found.grant)
	}
	if err != nil {
		return fmt.Errorf("weir has removed the sign-in at %q, but %w; end its access at the provider: %w", name, ErrNotRevoked, err)
	}
	return nil
}

// revoke asks the issuer of a grant to end its tokens, if the issuer can. The refresh token takes the
// access tokens with it.
func (c *Client) revoke(ctx context.Context, id vault.ID, g *grant) error {
	if g.Revoke == "" || g.SignedOut != "" {
		return nil
	}
	name, at, _ := strings.Cut(id.Server, " ")
	s := &Server{Name: name, URL: at}
	if g.Own {
		s.Issuer = g.Issuer
	}
	if c.servers != nil {
		if now, ok := c.servers(name); ok && now.key() == id.Server && now.ClientID == g.Client.ID && now.bound(g.Issuer) == nil {
			s = now // it has the secrets of the client
		}
	}
	token, hint := g.Refresh, "refresh_token"
	if token == "" {
		token, hint = g.Access, "access_token"
	}
	form := url.Values{"token": {token}, "token_type_hint": {hint}}
	header, err := c.show(s, g.Client, g.Issuer, form)
	if err == nil {
		err = c.web.reach(s.URL, s.Issuer).post(ctx, g.Revoke, form, header, nil, token, g.Client.Secret)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", g.Issuer, err)
	}
	return nil
}
