package callers_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// secret is what every secret of a configuration is here.
var secret = strings.Repeat("s", 40)

// provider is what one provider does in a way of its own: its metadata, its ID tokens, and what follows for weir.
type provider struct {
	config   string // "": the example of the document
	metadata map[string]any
	idToken  map[string]any
	asks     map[string]string // in the authorization
	scope    string
	subject  string
	groups   []string
	missing  bool     // the provider has more groups than it writes down
	foreign  []string // claims of another tenant or company, whose people are refused
	ends     bool     // it has a page that ends its session
	plain    bool     // OAuth without ID tokens
	about    map[string]any
}

// providers has the headings of docs/signin-clients.md, and more.
var providers = map[string]provider{
	"Microsoft Entra ID": {
		metadata: map[string]any{
			"scopes_supported": []string{"openid", "profile", "email", "offline_access"}, "authorization_response_iss_parameter_supported": nil,
			"code_challenge_methods_supported": nil, "token_endpoint_auth_methods_supported": []string{"client_secret_post", "private_key_jwt"},
			"end_session_endpoint": "https://login.microsoftonline.com/TENANT/oauth2/v2.0/logout",
		},
		idToken: map[string]any{"oid": "o1", "tid": "TENANT", "groups": []string{"5f2d"}, "ver": "2.0"},
		scope:   "openid profile offline_access", subject: "o1", groups: []string{"5f2d"}, foreign: []string{"tid"}, ends: true,
	},
	"Microsoft Entra ID, more than 200 groups": {
		config:   "Microsoft Entra ID",
		metadata: map[string]any{"scopes_supported": []string{"openid", "profile", "offline_access"}},
		idToken:  map[string]any{"oid": "o1", "tid": "TENANT", "_claim_names": map[string]any{"groups": "src1"}},
		scope:    "openid profile offline_access", subject: "o1", missing: true, foreign: []string{"tid"},
	},
	"Okta": {
		metadata: map[string]any{
			"scopes_supported":     []string{"openid", "email", "profile", "address", "phone", "offline_access", "groups"},
			"end_session_endpoint": "https://ORG.okta.com/oauth2/v1/logout",
		},
		idToken: map[string]any{"groups": []string{"Everyone"}, "ver": 1, "amr": []string{"pwd"}},
		scope:   "openid groups offline_access", subject: "u1", groups: []string{"Everyone"}, ends: true,
	},
	"Google": {
		metadata: map[string]any{"scopes_supported": []string{"openid", "email", "profile"}},
		idToken:  map[string]any{"hd": "example.com", "azp": "ID"},
		asks:     map[string]string{"access_type": "offline", "prompt": "consent"}, scope: "openid", subject: "u1", foreign: []string{"hd"},
	},
	"Keycloak": {
		metadata: map[string]any{
			"scopes_supported": []string{"openid", "offline_access", "roles"}, "backchannel_logout_session_supported": true,
			"end_session_endpoint": "https://kc.example.com/realms/corp/protocol/openid-connect/logout",
		},
		idToken: map[string]any{"realm_access": map[string]any{"roles": []string{"staff"}}, "typ": "ID", "azp": "weir-web", "sid": "s1"},
		scope:   "openid offline_access", subject: "u1", groups: []string{"staff"}, ends: true,
	},
	"Auth0": {
		metadata: map[string]any{"scopes_supported": []string{"openid", "offline_access"}, "end_session_endpoint": "https://TENANT.eu.auth0.com/oidc/logout"},
		idToken:  map[string]any{"https://weir.example.com/groups": []string{"staff"}, "sid": "s1"},
		scope:    "openid offline_access", subject: "u1", groups: []string{"staff"}, ends: true,
	},
	"GitHub": {
		plain: true,
		metadata: map[string]any{
			"authorization_endpoint": "https://github.com/login/oauth/authorize", "token_endpoint": "https://github.com/login/oauth/token",
			"authorization_response_iss_parameter_supported": nil, "jwks_uri": nil,
		},
		about: map[string]any{
			"https://api.github.com/user":                    map[string]any{"login": "ann", "id": 1, "node_id": "MDQ6VXNlcjE=", "name": nil, "email": nil},
			"https://api.github.com/user/orgs?per_page=100":  []any{map[string]any{"login": "CORP", "id": 2}},
			"https://api.github.com/user/teams?per_page=100": []any{map[string]any{"slug": "sre", "html_url": "https://github.com/orgs/CORP/teams/sre", "organization": map[string]any{"login": "CORP"}}},
		},
		scope: "read:org", subject: "MDQ6VXNlcjE=", groups: []string{"https://github.com/orgs/CORP/teams/sre"},
	},
	"GitHub behind Dex": {
		config: `
public_url: https://weir.example.com
auth:
  issuers: {corp: {issuer: "https://dex.example.com"}}
  login: {issuer: corp, client_id: weir-web, client_secret: "${secret:DEX}", scopes: [groups]}
  server: {people: corp}`,
		metadata: map[string]any{"scopes_supported": []string{"openid", "email", "groups", "profile", "offline_access"}},
		idToken:  map[string]any{"groups": []string{"corp:team"}, "preferred_username": "ann"},
		scope:    "openid groups offline_access", subject: "u1", groups: []string{"corp:team"},
	},
	"one that says nothing of scopes": {
		config: `
public_url: https://weir.example.com
auth:
  issuers: {corp: {issuer: "https://id.example.com"}}
  login: {issuer: corp, client_id: weir-web, client_secret: "${secret:CORP}"}
  server: {people: corp}`,
		scope: "openid", subject: "u1",
	},
}

// TestProviders: with the configuration of docs/signin-clients.md, people sign in at each provider in its way, are looked
// up again, and can be signed out there. weir is a provider's client as the document has it registered.
func TestProviders(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/signin-clients.md")
	if err != nil {
		t.Fatal(err)
	}
	_, all, _ := strings.Cut(string(raw), "\n## Providers\n")
	all, _, _ = strings.Cut(all, "\n## ")
	documented := map[string]string{}
	for _, section := range strings.Split(all, "\n### ")[1:] {
		name, _, _ := strings.Cut(section, "\n")
		example := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindStringSubmatch(section)
		if _, ok := providers[name]; !ok || example == nil {
			t.Errorf("the provider %q of the document is not here, or has no example", name)
			continue
		}
		documented[name] = example[1]
	}
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			text := p.config
			if text == "" {
				text = name
			}
			if example, ok := documented[text]; ok {
				text = example
			}
			c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{LookupSecret: func(string) (string, bool, error) { return secret, true, nil }, Strict: true})
			if err != nil {
				t.Fatalf("%s\n%v", text, err)
			}
			play(t, c, p)
		})
	}
}

// play signs a person in at a provider.
func play(t *testing.T, c *config.Config, p provider) {
	policy := callers.Policy(c, nil)
	idp := fakeidp.New(fakeidp.Options{Issuer: policy.Issuers[0].Issuer, OpenIDOnly: !p.plain, Plain: p.plain, ClientID: policy.Login.ClientID, ClientSecret: secret})
	for address, answer := range p.about {
		idp.About(address, answer, false)
	}
	idp.SetMetadata(p.metadata)
	idp.SetIDToken(p.idToken)
	a := access.New(access.Options{Client: idp.Client()})
	defer a.Close()
	a.Apply(policy)
	const back = "https://weir.example.com/connect/callback"
	began, err := a.BeginLogin(t.Context(), back, access.LoginWish{Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(began.Address)
	if err != nil {
		t.Fatal(err)
	}
	asked := at.Query()
	for key, want := range p.asks {
		if asked.Get(key) != want {
			t.Errorf("%s is %q", key, asked.Get(key))
		}
	}
	if asked.Get("scope") != p.scope || asked.Get("redirect_uri") != back || p.asks == nil && asked.Has("prompt") {
		t.Errorf("asks %v", asked)
	}
	in, err := a.FinishLogin(t.Context(), began.Memo, browse(t, idp, began.Address))
	if err != nil {
		t.Fatal(err)
	}
	next, err := a.RenewLogin(t.Context(), *in)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []*access.LoggedIn{in, next} {
		if id.Principal != "corp:"+p.subject || !slices.Equal(id.Groups, p.groups) || id.GroupsMissing != p.missing {
			t.Errorf("%+v", id.Identity)
		}
	}
	out, err := a.EndLogin(t.Context(), in.Proof, "https://weir.example.com/console")
	page, _ := p.metadata["end_session_endpoint"].(string)
	if err != nil || (out != "") != p.ends || !strings.HasPrefix(out, page) {
		t.Errorf("signed out at %q, %v", out, err)
	}
	for _, claim := range p.foreign {
		idp.SetIDToken(map[string]any{claim: "another", "oid": "o2"})
		began, err := a.BeginLogin(t.Context(), back, access.LoginWish{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.FinishLogin(t.Context(), began.Memo, browse(t, idp, began.Address)); err == nil {
			t.Errorf("a person with another %s is signed in", claim)
		}
	}
}

// TestGitHub: who is in no team of the organization is refused, more than a hundred teams are told to be incomplete, and a
// person whose token GitHub does not take any more has signed out.
func TestGitHub(t *testing.T) {
	p := providers["GitHub"]
	policy := access.Policy{
		PublicURL: "https://weir.example.com",
		Issuers:   []access.Issuer{{Name: "github", Issuer: "https://github.com/login/oauth", Subject: "node_id", Groups: "teams.html_url", Require: map[string]string{"orgs.login": "CORP"}}},
		Login: &access.Login{Issuer: "github", ClientID: "weir", ClientSecret: secret, Scopes: []string{"read:org"}, UserInfo: []string{
			"https://api.github.com/user", "https://api.github.com/user/orgs?per_page=100", "https://api.github.com/user/teams?per_page=100",
		}},
	}
	idp := fakeidp.New(fakeidp.Options{Issuer: policy.Issuers[0].Issuer, Plain: true, ClientID: "weir", ClientSecret: secret})
	idp.SetMetadata(p.metadata)
	for address, answer := range p.about {
		idp.About(address, answer, strings.Contains(address, "teams"))
	}
	a := access.New(access.Options{Client: idp.Client()})
	defer a.Close()
	a.Apply(policy)
	login := func() (*access.LoggedIn, error) {
		t.Helper()
		began, err := a.BeginLogin(t.Context(), "https://weir.example.com/connect/callback", access.LoginWish{Offline: true})
		if err != nil {
			t.Fatal(err)
		}
		return a.FinishLogin(t.Context(), began.Memo, browse(t, idp, began.Address))
	}
	in, err := login()
	if err != nil || !in.GroupsMissing || in.Principal != "github:MDQ6VXNlcjE=" {
		t.Fatalf("%+v, %v", in, err)
	}
	idp.Outage(true)
	idp.About("https://api.github.com/user", "not an object", false)
	if _, err := a.RenewLogin(t.Context(), *in); err == nil || errors.Is(err, access.ErrLoginEnded) {
		t.Errorf("an answer that cannot be read ends the login: %v", err)
	}
	idp.Outage(false)
	idp.About("https://api.github.com/user", p.about["https://api.github.com/user"], false)
	idp.EndTokens()
	if _, err := a.RenewLogin(t.Context(), *in); !errors.Is(err, access.ErrLoginEnded) {
		t.Errorf("a token that was revoked: %v", err)
	}
	idp.About("https://api.github.com/user/orgs?per_page=100", []any{map[string]any{"login": "other"}}, false)
	if _, err := login(); err == nil || !strings.Contains(err.Error(), "orgs.login") {
		t.Errorf("a person of another organization: %v", err)
	}
	idp.About("https://api.github.com/user/orgs?per_page=100", map[string]any{"login": "CORP"}, false)
	if _, err := login(); err == nil || !strings.Contains(err.Error(), "list") {
		t.Errorf("an object in place of a list: %v", err)
	}
	if _, err := a.FinishLogin(t.Context(), "", nil); err == nil {
		t.Error("a login without a memo")
	}
}

// browse sends a browser to an address and returns the query with which it comes back.
func browse(t *testing.T, idp *fakeidp.Provider, address string) url.Values {
	t.Helper()
	client := idp.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	return back.Query()
}
