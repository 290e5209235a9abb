package authserver

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/store"
)

// revoke answers revokePath (RFC 7009): the grant of the token ends. A token that is not known is no error.
func (x *exchange) revoke() error {
	form, err := x.posted()
	if err != nil {
		return err
	}
	c, err := x.authenticated(form)
	if err != nil {
		return err
	}
	ctx, cancel := x.context()
	defer cancel()
	token := form.Get("token")
	id, _, ok := x.grants.readRefresh(token)
	if !ok {
		if claims, err := x.keys.verify(ctx, token, accessKind); err == nil && claims["client_id"] == c.ID {
			id, _ = claims["sid"].(string)
		}
	}
	var g grant
	if id != "" {
		_, ok, err := x.load(ctx, grantPrefix+id, &g)
		if err != nil {
			return err
		}
		if ok && g.Client == c.ID {
			if err := x.grants.end(ctx, g.Person.Principal, id); err != nil {
				return err
			}
			x.o.Tell(identity.With(ctx, g.Person.identity(c.ID)), Revoked, "by the client")
		}
	}
	x.answer(http.StatusOK, map[string]any{})
	return nil
}

// logout answers logoutPath (OpenID Connect RP-Initiated Logout): the session of the ID token ends. Without a token
// of this Server nothing ends, as any page could send a browser here.
func (x *exchange) logout() {
	if err := x.r.ParseForm(); err != nil {
		x.page(http.StatusBadRequest, view{Title: "This link is damaged", Problem: "Its query cannot be read."})
		return
	}
	q := x.r.Form
	ctx, cancel := x.context()
	defer cancel()
	claims, err := x.keys.verify(ctx, q.Get("id_token_hint"), idKind)
	client, _ := claims["aud"].(string)
	session, _ := claims["sid"].(string)
	principal, _ := claims["sub"].(string)
	if err != nil || claims["iss"] != x.p.Issuer || session == "" || q.Get("client_id") != "" && q.Get("client_id") != client {
		x.page(http.StatusBadRequest, view{Title: "You are not signed out", Problem: "The link has no id_token_hint of this gateway. Sign out in your client, or let it forget this gateway."})
		return
	}
	if err := x.grants.end(ctx, principal, session); err != nil {
		x.stranger(err)
		return
	}
	x.o.Tell(identity.With(ctx, &identity.Identity{Principal: principal, Client: client}), LoggedOut, "by the client")
	back := q.Get("post_logout_redirect_uri")
	if back != "" {
		c, err := x.client(ctx, client)
		if err == nil && slices.Contains(c.Logouts, back) && usableRedirect(back) == "" {
			if u, err := url.Parse(back); err == nil {
				more := u.Query()
				if state := q.Get("state"); state != "" && len(state) <= maxState {
					more.Set("state", state)
				}
				u.RawQuery = more.Encode()
				x.w.Header().Set("Location", u.String())
				x.w.WriteHeader(http.StatusSeeOther)
				return
			}
		}
	}
	x.page(http.StatusOK, view{Title: "You are signed out", Text: "The client has no access to this gateway any more. You can close this page."})
}

// LoggedOut ends what a session at the provider has started: the grants of the session, or all of a person if session is
// "". The caller has checked that the provider says so.
func (s *Server) LoggedOut(ctx context.Context, principal, session string) error {
	p := s.policy.Load()
	if p == nil || p.People == nil {
		return nil
	}
	if err := s.grants.signOut(ctx, &Person{Principal: principal, Issuer: p.People.Name(), Session: session}); err != nil {
		return err
	}
	if principal == "" {
		_, ok, err := s.load(ctx, sessionPrefix+store.Hash(p.People.Name()+"\n"+session), &principal)
		if err != nil || !ok { // no client has a session of it
			return err
		}
	}
	count, err := s.grants.endAll(ctx, principal, session)
	if err == nil && count > 0 {
		s.o.Tell(identity.With(ctx, &identity.Identity{Principal: principal, Issuer: p.People.Name()}), LoggedOut, "by the provider")
	}
	return err
}
