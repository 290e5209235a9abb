package access_test

import (
	"errors"
	"net/url"
	"slices"
	"testing"

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
