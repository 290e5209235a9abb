package access_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

const back = public + "/connect/callback"

func withLogin(p *access.Policy, o *fakeidp.Options) {
	o.ClientID, o.ClientSecret = "weir-web", "s3cr&t"
	p.Login = &access.Login{Issuer: "corp", ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: []string{"groups"}}
	p.Issuers[0].Scopes = []string{"mcp"} // of access tokens
	p.Roles = []access.Role{{Name: "operator", Groups: []string{"sre"}}}
}

// browse sends a browser to an address and returns the query with which it comes back.
func (w world) browse(address string) url.Values {
	w.t.Helper()
	c := w.idp.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.Get(address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil {
		w.t.Fatal(err)
	}
	if !strings.HasPrefix(at.String(), back+"?") {
		w.t.Fatalf("the browser comes back to %s", at)
	}
	return at.Query()
}

func (w world) beginLogin() *access.BeganLogin {
	w.t.Helper()
	began, err := w.a.BeginLogin(w.t.Context(), back, access.LoginWish{})
	if err != nil {
		w.t.Fatal(err)
	}
	return began
}

func TestLogin(t *testing.T) {
	inWorld(t, withLogin, func(w world) {
		w.idp.SetIDToken(map[string]any{"groups": []string{"sre"}, "scope": "admin"})
		began := w.beginLogin()
		if asked, err := url.Parse(began.Address); err != nil || asked.Query().Get("scope") != "openid groups" {
			t.Errorf("%s %v", began.Address, err)
		}
		query := w.browse(began.Address)
		if query.Get("state") != began.State {
			t.Errorf("state %q, want %q", query.Get("state"), began.State)
		}
		id, err := w.a.FinishLogin(w.t.Context(), began.Memo, query)
		if err != nil {
			t.Fatal(err)
		}
		if id.Principal != "corp:u1" || !slices.Equal(id.Roles, []string{"operator"}) || id.Scopes != nil || id.Bearer != "" {
			t.Errorf("%+v", id)
		}
		if _, err := w.a.FinishLogin(w.t.Context(), began.Memo, query); err == nil {
			t.Error("a code is accepted twice")
		}
		if began = w.beginLogin(); w.idp.Requests("/.well-known/oauth-authorization-server/t") != 2 { // keys, logins
			t.Error("the metadata is fetched for every login")
		}
		w.a.Apply(access.Policy{PublicURL: public})
		if _, err := w.a.FinishLogin(w.t.Context(), began.Memo, w.browse(began.Address)); err == nil {
			t.Error("a login that was removed is finished")
		}
	})
}

// TestIDTokensAreChecked: none of these is of this person, this client and this login.
func TestIDTokensAreChecked(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() // where a bubble's time begins
	for name, change := range map[string]struct {
		claims map[string]any
		query  url.Values
		want   string
	}{
		"another client":    {claims: map[string]any{"aud": "other"}, want: "another client"},
		"two audiences":     {claims: map[string]any{"aud": []string{"weir-web", "other"}}, want: "another client"},
		"another party":     {claims: map[string]any{"aud": []string{"weir-web", "other"}, "azp": "other"}, want: "another client"},
		"another login":     {claims: map[string]any{"nonce": "n"}, want: "nonce"},
		"no nonce":          {claims: map[string]any{"nonce": nil}, want: "nonce"},
		"expired":           {claims: map[string]any{"exp": now - 100}, want: "expired"},
		"no exp":            {claims: map[string]any{"exp": nil}, want: "exp"},
		"another issuer":    {claims: map[string]any{"iss": "https://id.example/other"}, want: "another issuer"},
		"no subject":        {claims: map[string]any{"sub": nil}, want: "claim sub"},
		"answer of another": {query: url.Values{"iss": {"https://id.example/other"}}, want: "is refused"},
		"answer of nobody":  {query: url.Values{"iss": nil}, want: "is refused"},
		"refused":           {query: url.Values{"error": {"access_denied"}}, want: "access_denied"},
		"no code":           {query: url.Values{"code": nil}, want: "without a code"},
		"code of another":   {query: url.Values{"code": {"c"}}, want: "invalid_grant"},
		"a key of another":  {want: "no key"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, withLogin, func(w world) {
				w.idp.SetIDToken(change.claims)
				if name == "a key of another" {
					w.idp.SetIDToken(nil)
					w.wants("keys are fetched", w.idp.Token(map[string]any{"aud": mcpURL, "scope": "mcp"}), "")
					w.idp.SetMetadata(map[string]any{"jwks_uri": issuer + "/none"})
					w.idp.Rotate("ES256")
				}
				began := w.beginLogin()
				query := w.browse(began.Address)
				for key, values := range change.query {
					if query[key] = values; values == nil {
						query.Del(key)
					}
				}
				id, err := w.a.FinishLogin(w.t.Context(), began.Memo, query)
				if id != nil || err == nil || !strings.Contains(err.Error(), change.want) {
					t.Errorf("%+v %v, want %q", id, err, change.want)
				}
			})
		})
	}
	inWorld(t, nil, func(w world) {
		if _, err := w.a.BeginLogin(w.t.Context(), back, access.LoginWish{}); err == nil || !strings.Contains(err.Error(), "auth.login") {
			t.Errorf("without auth.login: %v", err)
		}
	})
	inWorld(t, withLogin, func(w world) {
		w.idp.Outage(true)
		const metadata = "/.well-known/oauth-authorization-server/t"
		before := w.idp.Requests(metadata)
		for range 100 {
			if _, err := w.a.BeginLogin(w.t.Context(), back, access.LoginWish{}); kind(err) != "identity_unavailable" {
				t.Errorf("during an outage: %v", err)
			}
		}
		if n := w.idp.Requests(metadata) - before; n > 1 {
			t.Errorf("100 logins at once ask %d times", n)
		}
		w.idp.Outage(false)
		time.Sleep(time.Minute)
		w.beginLogin()
	})
}
