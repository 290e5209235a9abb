package access_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// loggedIn logs a person in who stays so.
func (w world) loggedIn(wish access.LoginWish) (*access.LoggedIn, url.Values) {
	w.t.Helper()
	began, err := w.a.BeginLogin(w.t.Context(), back, wish)
	if err != nil {
		w.t.Fatal(err)
	}
	asked, err := url.Parse(began.Address)
	if err != nil {
		w.t.Fatal(err)
	}
	in, err := w.a.FinishLogin(w.t.Context(), began.Memo, w.browse(began.Address))
	if err != nil {
		w.t.Fatal(err)
	}
	return in, asked.Query()
}

// TestRenewLogin: a person is looked up again by the refresh token, with the groups of now.
func TestRenewLogin(t *testing.T) {
	inWorld(t, withLogin, func(w world) {
		w.idp.SetIDToken(map[string]any{"groups": []string{"sre"}, "sid": "s1"})
		in, asked := w.loggedIn(access.LoginWish{Hint: "ann@corp.example", Offline: true})
		if asked.Get("login_hint") != "ann@corp.example" || in.Refresh == "" || in.Session != "s1" {
			t.Errorf("%v, %+v", asked, in)
		}
		w.idp.SetIDToken(map[string]any{"groups": []string{"dev"}, "nonce": nil})
		next, err := w.a.RenewLogin(w.t.Context(), *in)
		if err != nil || !slices.Equal(next.Groups, []string{"dev"}) || next.Refresh == in.Refresh || next.Session != "s1" || next.Bearer != "" {
			t.Fatalf("%+v, %v", next, err)
		}
		if _, err := w.a.RenewLogin(w.t.Context(), *in); !errors.Is(err, access.ErrLoginEnded) {
			t.Errorf("a used refresh token: %v", err)
		}
		w.idp.SetIDToken(map[string]any{"sub": "u2", "nonce": nil})
		if _, err := w.a.RenewLogin(w.t.Context(), *next); !errors.Is(err, access.ErrLoginEnded) {
			t.Errorf("another person: %v", err)
		}
		w.idp.Outage(true)
		if _, err := w.a.RenewLogin(w.t.Context(), *next); err == nil || errors.Is(err, access.ErrLoginEnded) {
			t.Errorf("an outage ends a login: %v", err)
		}
	})
}

// TestQuirksOfProviders: each gives a refresh token in a way of its own, and writes groups where it likes.
func TestQuirksOfProviders(t *testing.T) {
	for name, c := range map[string]struct {
		issuer   access.Issuer
		metadata map[string]any
		idToken  map[string]any
		asks     map[string]string // of the authorization
		scope    string
		groups   []string
		missing  bool
		subject  string
	}{
		"Entra ID": {
			issuer:   access.Issuer{Issuer: "https://login.microsoftonline.com/t1/v2.0", Subject: "oid", Require: map[string]string{"tid": "t1"}},
			metadata: map[string]any{"scopes_supported": []string{"openid", "profile", "email", "offline_access"}, "authorization_response_iss_parameter_supported": nil},
			idToken:  map[string]any{"oid": "o1", "tid": "t1", "groups": []string{"g1"}},
			scope:    "openid offline_access", groups: []string{"g1"}, subject: "o1",
		},
		"Entra ID with too many groups": {
			issuer:   access.Issuer{Issuer: "https://login.microsoftonline.com/t1/v2.0", Subject: "oid"},
			metadata: map[string]any{"scopes_supported": []string{"openid", "offline_access"}},
			idToken:  map[string]any{"oid": "o1", "_claim_names": map[string]any{"groups": "src1"}},
			scope:    "openid offline_access", missing: true, subject: "o1",
		},
		"Okta": {
			issuer:   access.Issuer{Issuer: "https://corp.okta.com/oauth2/default"},
			metadata: map[string]any{"scopes_supported": []string{"openid", "offline_access", "groups"}},
			idToken:  map[string]any{"groups": []string{"Everyone"}},
			scope:    "openid offline_access", groups: []string{"Everyone"}, subject: "u1",
		},
		"Google": {
			issuer:   access.Issuer{Issuer: "https://accounts.google.com", Require: map[string]string{"hd": "corp.example"}},
			metadata: map[string]any{"scopes_supported": []string{"openid", "email", "profile"}},
			idToken:  map[string]any{"hd": "corp.example"},
			asks:     map[string]string{"access_type": "offline", "prompt": "consent"}, scope: "openid", subject: "u1",
		},
		"Keycloak": {
			issuer:   access.Issuer{Issuer: "https://kc.example/realms/corp", Groups: "realm_access.roles"},
			metadata: map[string]any{"scopes_supported": []string{"openid", "offline_access", "roles"}},
			idToken:  map[string]any{"realm_access": map[string]any{"roles": []string{"staff"}}, "typ": "ID"},
			scope:    "openid offline_access", groups: []string{"staff"}, subject: "u1",
		},
		"Auth0": {
			issuer:   access.Issuer{Issuer: "https://corp.eu.auth0.com/", Groups: "https://weir.example/groups"},
			metadata: map[string]any{"scopes_supported": []string{"openid", "offline_access"}},
			idToken:  map[string]any{"https://weir.example/groups": []string{"staff"}},
			scope:    "openid offline_access", groups: []string{"staff"}, subject: "u1",
		},
		"one that says nothing of scopes": {
			issuer: access.Issuer{Issuer: "https://id.example"}, scope: "openid", subject: "u1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			idp := fakeidp.New(fakeidp.Options{Issuer: c.issuer.Issuer, OpenIDOnly: true, ClientID: "weir-web", ClientSecret: "s3cr&t"})
			idp.SetMetadata(c.metadata)
			idp.SetIDToken(c.idToken)
			a := access.New(access.Options{Client: idp.Client()})
			defer a.Close()
			issuer := c.issuer
			issuer.Name = "corp"
			a.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{issuer}, Login: &access.Login{Issuer: "corp", ClientID: "weir-web", ClientSecret: "s3cr&t"}})
			w := world{t: t, idp: idp, a: a}
			in, asked := w.loggedIn(access.LoginWish{Offline: true})
			for key, want := range c.asks {
				if asked.Get(key) != want {
					t.Errorf("%s is %q", key, asked.Get(key))
				}
			}
			if asked.Get("scope") != c.scope || c.asks == nil && asked.Has("prompt") {
				t.Errorf("asks %v", asked)
			}
			next, err := a.RenewLogin(t.Context(), *in)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []*access.LoggedIn{in, next} {
				if id.Principal != "corp:"+c.subject || !slices.Equal(id.Groups, c.groups) || id.GroupsMissing != c.missing {
					t.Errorf("%+v", id.Identity)
				}
			}
		})
	}
}

// TestLoggedOut: a logout token is of this issuer and this client, of now, and of no other kind.
func TestLoggedOut(t *testing.T) {
	const event = "http://schemas.openid.net/event/backchannel-logout"
	inWorld(t, withLogin, func(w world) {
		token := func(kind string, change map[string]any) string {
			now := time.Now().Unix()
			claims := map[string]any{"iss": issuer, "aud": "weir-web", "iat": now, "exp": now + 120, "jti": "j", "sub": "u1", "sid": "s1", "events": map[string]any{event: map[string]any{}}}
			for name, value := range change {
				if claims[name] = value; value == nil {
					delete(claims, name)
				}
			}
			return w.idp.Signer().Sign(map[string]any{"typ": kind}, claims)
		}
		for name, c := range map[string]struct {
			kind               string
			change             map[string]any
			principal, session string
			want               string
		}{
			"both":            {"logout+jwt", nil, "corp:u1", "s1", ""},
			"without a kind":  {"JWT", nil, "corp:u1", "s1", ""},
			"a session":       {"logout+jwt", map[string]any{"sub": nil}, "", "s1", ""},
			"a person":        {"logout+jwt", map[string]any{"sid": nil}, "corp:u1", "", ""},
			"nothing":         {"logout+jwt", map[string]any{"sid": nil, "sub": nil}, "", "", "neither"},
			"another client":  {"logout+jwt", map[string]any{"aud": "other"}, "", "", "another client"},
			"another issuer":  {"logout+jwt", map[string]any{"iss": "https://id.example/other"}, "", "", "another issuer"},
			"an ID token":     {"JWT", map[string]any{"events": nil}, "", "", "no logout token"},
			"with a nonce":    {"logout+jwt", map[string]any{"nonce": "n"}, "", "", "no logout token"},
			"old":             {"logout+jwt", map[string]any{"iat": time.Now().Unix() - 600}, "", "", "too old"},
			"of the future":   {"logout+jwt", map[string]any{"iat": time.Now().Unix() + 600}, "", "", "too old"},
			"expired":         {"logout+jwt", map[string]any{"exp": time.Now().Unix() - 100}, "", "", "expired"},
			"an access token": {"at+jwt", nil, "", "", "typ"},
		} {
			principal, session, err := w.a.LoggedOut(t.Context(), token(c.kind, c.change))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || principal != c.principal || session != c.session {
				t.Errorf("%s: %q %q %v", name, principal, session, err)
			}
		}
		if _, _, err := w.a.LoggedOut(t.Context(), fakeidp.NewSigner("ES256").Sign(nil, map[string]any{"iss": issuer, "aud": "weir-web", "iat": time.Now().Unix(), "sid": "s1", "events": map[string]any{event: map[string]any{}}})); err == nil {
			t.Error("a key of another party signs a logout token")
		}
		w.wants("a logout token as an access token", token("logout+jwt", map[string]any{"aud": mcpURL, "scope": "mcp"}), "unauthorized")
	})
}
