package access_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	public = "https://weir.example"
	mcpURL = public + "/mcp"
	issuer = "https://id.example/t"
	jwks   = "/t/jwks"
)

// world is a provider and an Authenticator that trusts it.
type world struct {
	t   *testing.T
	idp *fakeidp.Provider
	a   *access.Authenticator
}

// inWorld runs a test in a bubble with a clock of its own.
func inWorld(t *testing.T, change func(*access.Policy, *fakeidp.Options), test func(world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer}}}
		o := fakeidp.Options{Issuer: issuer}
		if change != nil {
			change(&p, &o)
		}
		w := world{t: t, idp: fakeidp.New(o)}
		w.a = access.New(access.Options{Client: w.idp.Client()})
		defer w.a.Close()
		w.a.Apply(p)
		synctest.Wait()
		test(w)
	})
}

// ask authenticates a request to a path.
func (w world) ask(path, token string) (*identity.Identity, error) {
	w.t.Helper()
	r := httptest.NewRequest("POST", path, nil).WithContext(w.t.Context())
	return w.a.Authenticate(r, token)
}

// kind returns the kind of an error, "" without one.
func kind(err error) string {
	if err == nil {
		return ""
	}
	k, _ := mcp.KindOf(err)
	return k.String()
}

// wants checks the kind of the answer for a token at /mcp.
func (w world) wants(name, token, want string) {
	w.t.Helper()
	if _, err := w.ask("/mcp", token); kind(err) != want {
		w.t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func with(pairs ...any) map[string]any {
	out := map[string]any{"aud": mcpURL}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

func TestIdentityOfJWT(t *testing.T) {
	inWorld(t, func(p *access.Policy, _ *fakeidp.Options) {
		p.Issuers[0].Groups = "realm_access.roles"
		p.Roles = []access.Role{{Name: "operator", Groups: []string{"sre"}}, {Name: "auditor", Principals: []string{"corp:u1"}}, {Name: "other", Groups: []string{"x"}}}
	}, func(w world) {
		token := w.idp.Token(with("scope", "b a", "azp", "cli", "realm_access", map[string]any{"roles": []string{"sre", "dev", "sre"}}))
		id, err := w.ask("/mcp", token)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal([]any{id.Principal, id.Issuer, id.Client, id.Groups, id.Scopes, id.Roles, id.GroupsMissing})
		if want := `["corp:u1","corp","cli",["dev","sre"],["a","b"],["auditor","operator"],false]`; string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if id.Expires.IsZero() || string(id.Bearer) != token || id.Claims["azp"] != "cli" {
			t.Errorf("got %+v", id)
		}
	})
}

func TestEveryAlgorithm(t *testing.T) {
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"} {
		inWorld(t, func(_ *access.Policy, o *fakeidp.Options) { o.Alg = alg }, func(w world) {
			w.wants(alg, w.idp.Token(with()), "")
		})
	}
}

// TestForgedTokens: what a token says about its own key or algorithm changes nothing.
func TestForgedTokens(t *testing.T) {
	inWorld(t, nil, func(w world) {
		s, stranger := w.idp.Signer(), fakeidp.NewSigner("ES256")
		stranger.KeyID = s.KeyID
		claims := func() map[string]any {
			return map[string]any{"iss": issuer, "sub": "u1", "aud": mcpURL, "exp": time.Now().Add(time.Hour).Unix()}
		}
		good := s.Sign(nil, claims())
		w.wants("good", good, "")
		parts := strings.Split(good, ".")
		for name, token := range map[string]string{
			"another key":            stranger.Sign(nil, claims()),
			"alg none":               s.As("none").Sign(nil, claims()),
			"alg none and signed":    parts[0] + "." + parts[1] + ".AA",
			"HMAC by the public key": s.As("HS256").Sign(nil, claims()),
			"another curve's alg":    s.Sign(map[string]any{"alg": "ES384"}, claims()),
			"alg in capitals":        s.Sign(map[string]any{"alg": "es256"}, claims()),
			"no alg but ALG":         s.Sign(map[string]any{"alg": nil, "ALG": "ES256"}, claims()),
			"jku":                    s.Sign(map[string]any{"jku": issuer + "/jwks"}, claims()),
			"x5u":                    s.Sign(map[string]any{"x5u": issuer}, claims()),
			"jwk":                    s.Sign(map[string]any{"jwk": s.JWK()}, claims()),
			"crit":                   s.Sign(map[string]any{"crit": []string{"b64"}}, claims()),
			"kid is a number":        s.Sign(map[string]any{"kid": 7}, claims()),
			"typ of an ID-JAG":       s.Sign(map[string]any{"typ": "oauth-id-jag+jwt"}, claims()),
			"typ of a DPoP proof":    s.Sign(map[string]any{"typ": "dpop+jwt"}, claims()),
			"other claims":           parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+issuer+`","sub":"root","aud":"`+mcpURL+`","exp":9999999999}`)) + "." + parts[2],
			"no signature":           parts[0] + "." + parts[1] + ".",
			"more than 16 KB":        s.Sign(nil, map[string]any{"iss": issuer, "sub": "u1", "aud": mcpURL, "exp": 9999999999, "x": strings.Repeat("x", 16<<10)}),
			"four parts":             good + ".x",
			"no JSON":                "e30x.e30.e30",
		} {
			w.wants(name, token, "unauthorized")
		}
		w.wants("no typ", s.Sign(map[string]any{"typ": nil}, claims()), "")
		w.wants("typ of RFC 9068", s.Sign(map[string]any{"typ": "at+JWT"}, claims()), "")
	})
}

func TestClaims(t *testing.T) {
	inWorld(t, nil, func(w world) {
		now := time.Now()
		in := func(d time.Duration) int64 { return now.Add(d).Unix() }
		for name, c := range map[string]struct {
			claims map[string]any
			want   string
		}{
			"expired within the leeway":  {with("exp", in(-59*time.Second)), ""},
			"expired":                    {with("exp", in(-61*time.Second)), "unauthorized"},
			"no exp":                     {with("exp", nil), "unauthorized"},
			"exp is a text":              {with("exp", "9999999999"), "unauthorized"},
			"exp is huge":                {with("exp", 1e300), ""},
			"not yet within the leeway":  {with("nbf", in(59*time.Second)), ""},
			"not yet":                    {with("nbf", in(62*time.Second)), "unauthorized"},
			"no sub":                     {with("sub", nil), "unauthorized"},
			"sub is a number":            {with("sub", 7), "unauthorized"},
			"sub with a line":            {with("sub", "a\nb"), "unauthorized"},
			"sub is long":                {with("sub", strings.Repeat("x", 256)), "unauthorized"},
			"iss with a slash":           {with("iss", issuer+"/"), "unauthorized"},
			"iss is missing":             {with("iss", nil), "unauthorized"},
			"ID token by at_hash":        {with("at_hash", "x"), "unauthorized"},
			"ID token by typ":            {with("typ", "ID"), "unauthorized"},
			"ID token by token_use":      {with("token_use", "id"), "unauthorized"},
			"refresh token":              {with("typ", "Refresh"), "unauthorized"},
			"access token with a nonce":  {with("nonce", "n", "typ", "Bearer"), ""},
			"bound by DPoP":              {with("cnf", map[string]any{"jkt": "x"}), "unauthorized"},
			"bound to a certificate":     {with("cnf", map[string]any{"x5t#S256": "x"}), "unauthorized"},
			"bound in an unknown way":    {with("cnf", map[string]any{"kid": "x"}), "unauthorized"},
			"bound by cnf of other type": {with("cnf", "x"), "unauthorized"},
		} {
			w.wants(name, w.idp.Token(c.claims), c.want)
		}
	})
}

// TestAudience has the rules of each path.
func TestAudience(t *testing.T) {
	inWorld(t, func(p *access.Policy, _ *fakeidp.Options) { p.Issuers[0].Audiences = []string{"api://weir"} }, func(w world) {
		for _, c := range []struct {
			path string
			aud  any
			ok   bool
		}{
			{"/mcp", mcpURL, true},
			{"/mcp", public, true},
			{"/mcp", public + "/", true},
			{"/mcp", "api://weir", true},
			{"/mcp", []string{"other", mcpURL}, true},
			{"/mcp", []any{7, mcpURL}, true},
			{"/mcp", nil, false},
			{"/mcp", "", false},
			{"/mcp", "https://other.example/mcp", false},
			{"/mcp", public + "/mcps/x/mcp", false},
			{"/mcp", public + "/mcp/support", false},
			{"/mcp/support", public + "/mcp/support", true},
			{"/mcp/support", mcpURL, false},
			{"/mcps/x/mcp", public + "/mcps/x/mcp", true},
			{"/mcps/x/mcp", public + "/mcps/y/mcp", false},
			{"/mcps/x/mcp", mcpURL, false},
			{"/mcps/x/mcp", public, true},
			{"/mcps/x/mcp/tasks/1", public + "/mcps/x/mcp", true},
			{"/mcp/x/mcp", public + "/mcp/x/mcp", true},
			{"/sse", public, true},
			{"/sse", mcpURL, false},
			{"/console/data", mcpURL, false},
			{"/agents", mcpURL, false},
			{"/whoami", mcpURL, true},
			{"/whoami", "https://weir.example.evil/mcp", false},
		} {
			_, err := w.ask(c.path, w.idp.Token(map[string]any{"aud": c.aud}))
			if (err == nil) != c.ok {
				t.Errorf("aud %v at %s: %v", c.aud, c.path, err)
			}
		}
		// A token that is known from one path is checked again at another.
		token := w.idp.Token(with())
		w.wants("first", token, "")
		if _, err := w.ask("/mcps/x/mcp", token); kind(err) != "unauthorized" || !strings.Contains(err.Error(), public+"/mcps/x/mcp") {
			t.Errorf("a cached token at another path: %v", err)
		}
	})
}

func TestScopesAndRequire(t *testing.T) {
	inWorld(t, func(p *access.Policy, _ *fakeidp.Options) {
		p.Issuers[0].Scopes, p.Issuers[0].Require = []string{"mcp", "tools"}, map[string]string{"tid": "t1", "app.roles": "weir"}
	}, func(w world) {
		app := map[string]any{"roles": []string{"x", "weir"}}
		w.wants("all", w.idp.Token(with("tid", "t1", "app", app, "scope", "tools mcp")), "")
		w.wants("scp as a list", w.idp.Token(with("tid", "t1", "app", app, "scp", []string{"tools", "mcp"})), "")
		w.wants("scp as a text", w.idp.Token(with("tid", "t1", "app", app, "scp", "tools mcp")), "")
		if id, err := w.ask("/mcp", w.idp.Token(with("tid", "t1", "app", app, "scope", "tools mcp"))); err != nil || !slices.Equal(id.Needed, []string{"mcp", "tools"}) {
			t.Errorf("the identity needs %v, %v", id, err)
		}
		w.wants("another tenant", w.idp.Token(with("tid", "t2", "app", app, "scope", "tools mcp")), "unauthorized")
		w.wants("no role", w.idp.Token(with("tid", "t1", "scope", "tools mcp")), "unauthorized")
		_, err := w.ask("/mcp", w.idp.Token(with("tid", "t1", "app", app, "scope", "mcp")))
		if kind(err) != "insufficient_scope" {
			t.Fatalf("a missing scope: %v", err)
		}
		if got := string(mcp.WireError(err, "").Data); got != `{"kind":"insufficient_scope","scopes":["mcp","tools"]}` {
			t.Errorf("data = %s", got)
		}
		// A foreign audience is told before a scope: the token is not for this gateway at all.
		if _, err := w.ask("/mcp", w.idp.Token(map[string]any{"aud": "x", "tid": "t1", "app": app})); kind(err) != "unauthorized" {
			t.Errorf("foreign audience: %v", err)
		}
	})
}

func TestEmailIsAPrincipalOnlyIfVerified(t *testing.T) {
	inWorld(t, func(p *access.Policy, _ *fakeidp.Options) { p.Issuers[0].Subject = "email" }, func(w world) {
		w.wants("unverified", w.idp.Token(with("email", "a@b.c", "email_verified", false)), "unauthorized")
		w.wants("silent", w.idp.Token(with("email", "a@b.c")), "unauthorized")
		id, err := w.ask("/mcp", w.idp.Token(with("email", "a@b.c", "email_verified", true)))
		if err != nil || id.Principal != "corp:a@b.c" {
			t.Errorf("verified: %v, %v", id, err)
		}
	})
}

func TestEntraOverage(t *testing.T) {
	inWorld(t, func(p *access.Policy, _ *fakeidp.Options) {
		p.Roles = []access.Role{{Name: "operator", Principals: []string{"corp:u1"}, Groups: []string{"sre"}}, {Name: "auditor", Groups: []string{"audit"}}, {Name: "other", Principals: []string{"corp:u2"}}}
	}, func(w world) {
		for _, claims := range []map[string]any{
			with("_claim_names", map[string]any{"groups": "src1"}, "_claim_sources", map[string]any{"src1": map[string]any{"endpoint": "https://graph.example"}}),
			with("hasgroups", true),
		} {
			id, err := w.ask("/mcp", w.idp.Token(claims))
			if err != nil || !id.GroupsMissing || len(id.Groups) != 0 {
				t.Errorf("%v: %+v, %v", claims, id, err)
			}
			// A role that only groups give may be one that the caller has.
			if !slices.Equal(id.Roles, []string{"operator"}) || !slices.Equal(id.RolesMissing, []string{"auditor"}) {
				t.Errorf("%v: roles %q, not known %q", claims, id.Roles, id.RolesMissing)
			}
		}
		var log bytes.Buffer
		told := access.New(access.Options{Client: w.idp.Client(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer told.Close()
		told.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer}}})
		token := w.idp.Token(with("hasgroups", true))
		for range 2 {
			if _, err := told.Authenticate(httptest.NewRequest("POST", "/mcp", nil).WithContext(w.t.Context()), token); err != nil {
				t.Error(err)
			}
		}
		if text := log.String(); strings.Count(text, "left the groups out") != 1 || !strings.Contains(text, "principal=corp:u1") || strings.Contains(text, token) {
			t.Errorf("the log says %q", text)
		}
		if id, err := w.ask("/mcp", w.idp.Token(with("groups", []string{"dev"}))); err != nil || id.GroupsMissing || id.RolesMissing != nil {
			t.Errorf("all groups are there: %+v, %v", id, err)
		}
	})
}

func TestStaticTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := access.New(access.Options{})
		defer a.Close()
		a.Apply(access.Policy{
			Tokens: []access.Token{
				{Name: "ci", SHA256: sha256.Sum256([]byte("t0p")), Groups: []string{"bots", "a"}, Expires: time.Now().Add(time.Hour)},
				{Name: "dev", SHA256: sha256.Sum256([]byte("dev"))},
			},
			Roles: []access.Role{{Name: "operator", Groups: []string{"bots"}}},
		})
		r := httptest.NewRequest("POST", "/mcp", nil)
		id, err := a.Authenticate(r, "t0p")
		if err != nil || id.Principal != "ci" || !id.InGroup("bots") || !id.HasRole("operator") {
			t.Fatalf("%+v, %v", id, err)
		}
		if id, err := a.Authenticate(r, "dev"); err != nil || id.Principal != "dev" || len(id.Roles) != 0 {
			t.Errorf("%+v, %v", id, err)
		}
		for _, bad := range []string{"", "T0p", "a.b.c"} {
			if _, err := a.Authenticate(r, bad); kind(err) != "unauthorized" {
				t.Errorf("%q: %v", bad, err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := a.Authenticate(r, "t0p"); kind(err) != "unauthorized" || !strings.Contains(err.Error(), "expired") {
			t.Errorf("after an hour: %v", err)
		}
	})
}

func TestCertificates(t *testing.T) {
	spiffe, _ := url.Parse("spiffe://example/agent")
	request := func(verified bool, leaf *x509.Certificate) *http.Request {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
		}
		return r
	}
	named := &x509.Certificate{Raw: []byte("der"), Subject: pkix.Name{CommonName: "agent", Organization: []string{"x"}}}
	a := access.New(access.Options{})
	defer a.Close()
	a.Apply(access.Policy{Certificates: true, Roles: []access.Role{{Name: "auditor", Principals: []string{"cert:spiffe://example/agent"}}}})
	for name, c := range map[string]struct {
		verified bool
		leaf     *x509.Certificate
		want     string
	}{
		"SPIFFE":       {true, &x509.Certificate{URIs: []*url.URL{spiffe}}, "cert:spiffe://example/agent"},
		"subject":      {true, named, "cert:CN=agent,O=x"},
		"two URIs":     {true, &x509.Certificate{URIs: []*url.URL{spiffe, spiffe}}, ""},
		"no name":      {true, &x509.Certificate{}, ""},
		"not verified": {false, named, ""},
	} {
		id, err := a.Authenticate(request(c.verified, c.leaf), "")
		if c.want == "" {
			if kind(err) != "unauthorized" {
				t.Errorf("%s: %v, %v", name, id, err)
			}
			continue
		}
		if err != nil || id.Principal != c.want || id.HasRole("auditor") != (name == "SPIFFE") {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	a.Apply(access.Policy{})
	if _, err := a.Authenticate(request(true, named), ""); kind(err) != "unauthorized" {
		t.Errorf("certificates are off: %v", err)
	}

	// A token that is bound to a certificate works with it alone, also from the cache.
	inWorld(t, nil, func(w world) {
		sum := sha256.Sum256(named.Raw)
		token := w.idp.Token(with("cnf", map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}))
		for range 2 {
			if _, err := w.a.Authenticate(request(true, named).WithContext(t.Context()), token); err != nil {
				t.Error(err)
			}
			w.wants("without the certificate", token, "unauthorized")
		}
	})
}

func TestMetadataAndChallenge(t *testing.T) {
	inWorld(t, func(p *access.Policy, _ *fakeidp.Options) {
		p.PublicURL = public + "/base"
		p.Issuers[0].Scopes = []string{"mcp", "offline_access"}
	}, func(w world) {
		for path, resource := range map[string]string{
			"": "", "/": "", "/mcp": "/mcp", "/base/mcp": "/mcp", "/base": "", "/mcp/support": "/mcp/support", "/mcp/x/mcp": "/mcp/x/mcp", "/mcps/x/mcp": "/mcps/x/mcp",
		} {
			r := httptest.NewRecorder()
			w.a.ServeMetadata(r, httptest.NewRequest("GET", access.MetadataPath+path, nil))
			want := `{"resource":"` + public + "/base" + resource + `","authorization_servers":["` + issuer + `"],"scopes_supported":["mcp"],"bearer_methods_supported":["header"],"resource_name":"weir"}`
			if r.Body.String() != want || r.Header().Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%q: %s", path, r.Body)
			}
		}
		for _, path := range []string{"/console", "/mcp/", "/mcps/x", "/mcps/x/mcp/y", "/basemcp"} {
			r := httptest.NewRecorder()
			w.a.ServeMetadata(r, httptest.NewRequest("GET", access.MetadataPath+path, nil))
			if r.Code != 404 {
				t.Errorf("%q: %d %s", path, r.Code, r.Body)
			}
		}
		metadata, scopes := w.a.Challenge(httptest.NewRequest("POST", "/mcps/x/mcp", nil))
		if metadata != public+"/base"+access.MetadataPath+"/mcps/x/mcp" || len(scopes) != 2 {
			t.Errorf("challenge %q %v", metadata, scopes)
		}
	})
}
