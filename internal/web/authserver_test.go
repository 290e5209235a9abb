package web_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/access/password"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// signer is a gateway with an authorization server, and a browser.
type signer struct {
	*protected
	browser *http.Client
}

const annsPassword = "correct horse battery staple"

// startSigner starts a gateway whose person ann has an account. more are further keys of auth.server, or the whole of
// auth.
func startSigner(t *testing.T, more string, config ...string) *signer {
	t.Helper()
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(fake)
	t.Cleanup(func() { fake.Close(); upstream.Close() })
	var server *web.Server
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	auth := fmt.Sprintf("{accounts: [{name: ann, password: %q, groups: [sre]}], server: {people: accounts%s}, roles: {operator: {groups: [sre]}}}", password.Hash(annsPassword), more)
	if strings.HasPrefix(more, "{") {
		auth = more
	}
	text := fmt.Sprintf("public_url: %s\nauth: %s\nmcpServers: {up: {url: %q}}\n%s", front.URL, auth, upstream.URL+"/mcp", strings.Join(config, "\n"))
	engine, c := gatewayOf(t, text)
	if err := engine.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	server = web.NewHandler(engine, c, front.URL, api.Machine{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		engine.Close(ctx)
	})
	return &signer{&protected{t, front.URL, nil, engine, server, text}, newBrowser()}
}

// newBrowser returns a browser that follows no redirect.
func newBrowser() *http.Client {
	jar, _ := cookiejar.New(nil)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// post sends a form or JSON as a program and returns the answer.
func (s *signer) post(path, kind, body string) (int, map[string]any) {
	s.t.Helper()
	resp, err := http.Post(s.base+path, kind, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&out)
	return resp.StatusCode, out
}

// register registers a client.
func (s *signer) register(redirect string) string {
	s.t.Helper()
	status, out := s.post("/oauth/register", "application/json", fmt.Sprintf(`{"client_name": "Test client", "redirect_uris": [%q], "token_endpoint_auth_method": "none"}`, redirect))
	id, _ := out["client_id"].(string)
	if status != http.StatusCreated || id == "" {
		s.t.Fatalf("%d %v", status, out)
	}
	return id
}

var hiddenRequest = regexp.MustCompile(`name="request" value="([^"]+)"`)

// code signs ann in for a client and returns where the browser goes back to.
func (s *signer) code(client, redirect, verifier string, more url.Values) *url.URL {
	s.t.Helper()
	q := url.Values{
		"client_id": {client}, "redirect_uri": {redirect}, "response_type": {"code"}, "code_challenge": {issuers.Challenge(verifier)},
		"code_challenge_method": {"S256"}, "resource": {s.base + "/mcp"}, "state": {"st"}, "scope": {"mcp"},
	}
	for name, values := range more {
		q[name] = values
	}
	resp, page := s.open("GET", "/oauth/authorize?"+q.Encode(), nil)
	if resp.StatusCode != http.StatusOK {
		back, _ := resp.Location()
		if back == nil {
			s.t.Fatalf("%d %s", resp.StatusCode, page)
		}
		return back
	}
	resp, page = s.open("POST", "/oauth/signin", url.Values{"request": {s.hidden(page)}, "name": {"ann"}, "password": {annsPassword}})
	if strings.Contains(page, "Allow") {
		resp, page = s.open("POST", "/oauth/consent", url.Values{"request": {s.hidden(page)}, "decision": {"allow"}})
	}
	back, err := resp.Location()
	if err != nil {
		s.t.Fatalf("%d %s", resp.StatusCode, page)
	}
	return back
}

func (s *signer) hidden(page string) string {
	s.t.Helper()
	m := hiddenRequest.FindStringSubmatch(page)
	if m == nil {
		s.t.Fatalf("no form: %s", page)
	}
	return m[1]
}

// open has the browser open a page.
func (s *signer) open(method, path string, form url.Values) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", s.base)
	}
	resp, err := s.browser.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(body)
}

// tokens exchanges a code.
func (s *signer) tokens(client, redirect, verifier string, back *url.URL) (int, map[string]any) {
	s.t.Helper()
	return s.post("/oauth/token", "application/x-www-form-urlencoded", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client}, "code": {back.Query().Get("code")}, "redirect_uri": {redirect},
		"code_verifier": {verifier}, "resource": {s.base + "/mcp"},
	}.Encode())
}

func (s *signer) refresh(client string, token any) (int, map[string]any) {
	s.t.Helper()
	return s.post("/oauth/token", "application/x-www-form-urlencoded", url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {token.(string)}}.Encode())
}

// whoami returns who a token is.
func (s *signer) whoami(token any) (int, string) {
	s.t.Helper()
	resp, body := s.do("GET", "/whoami", token.(string), "")
	return resp.StatusCode, body
}

// TestSignInFromTheURLAlone: from a 401 by metadata, registration and a password to a call, as clients do it.
func TestSignInFromTheURLAlone(t *testing.T) {
	s := startSigner(t, "")
	resp, _ := s.do("POST", "/mcp", "", initialize)
	challenge := resp.Header.Get("WWW-Authenticate")
	if resp.StatusCode != 401 || !strings.Contains(challenge, "/.well-known/oauth-protected-resource/mcp") || !strings.Contains(challenge, `scope="mcp"`) {
		t.Fatalf("%d %s", resp.StatusCode, challenge)
	}
	var resource struct {
		Resource              string
		Authorization_servers []string
	}
	_, body := s.do("GET", "/.well-known/oauth-protected-resource/mcp", "", "")
	if err := json.Unmarshal([]byte(body), &resource); err != nil || resource.Resource != s.base+"/mcp" || len(resource.Authorization_servers) != 1 || resource.Authorization_servers[0] != s.base {
		t.Fatalf("%s, %v", body, err)
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		var meta map[string]any
		_, body := s.do("GET", path, "", "")
		if err := json.Unmarshal([]byte(body), &meta); err != nil || meta["issuer"] != s.base || meta["registration_endpoint"] != s.base+"/oauth/register" {
			t.Fatalf("%s: %s", path, body)
		}
	}
	redirect, verifier := "http://127.0.0.1:4711/callback", rand.Text()+rand.Text()
	client := s.register("http://127.0.0.1/callback")
	back := s.code(client, redirect, verifier, nil)
	if q := back.Query(); q.Get("iss") != s.base || q.Get("state") != "st" || q.Get("code") == "" {
		t.Fatal(back)
	}
	status, tokens := s.tokens(client, redirect, verifier, back)
	if status != 200 || tokens["token_type"] != "Bearer" || tokens["expires_in"] != 600.0 || tokens["refresh_token"] == nil {
		t.Fatalf("%d %v", status, tokens)
	}
	resp, body = s.do("POST", "/mcp", tokens["access_token"].(string), initialize)
	if resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if status, body := s.whoami(tokens["access_token"]); status != 200 || !strings.Contains(body, `"principal":"account:ann"`) || !strings.Contains(body, `"sre"`) || !strings.Contains(body, `"operator"`) || !strings.Contains(body, client) {
		t.Errorf("%d %s", status, body)
	}
	status, next := s.refresh(client, tokens["refresh_token"])
	if status != 200 || next["refresh_token"] == tokens["refresh_token"] {
		t.Fatalf("%d %v", status, next)
	}
	if resp, _ := s.do("POST", "/mcp/other", next["access_token"].(string), initialize); resp.StatusCode != 401 {
		t.Errorf("a token of /mcp opens another path: %d", resp.StatusCode)
	}
}

// TestSignInAtTheProvider: people of a company sign in at its provider; rules, the audit log and logouts know them as
// with a token of the provider.
func TestSignInAtTheProvider(t *testing.T) {
	idp, provider := fakeidp.Start(fakeidp.Options{}, "/t")
	t.Cleanup(provider.Close)
	idp.SetMetadata(map[string]any{"scopes_supported": []string{"openid", "offline_access"}})
	idp.SetIDToken(map[string]any{"groups": []string{"sre"}, "sid": "s1"})
	log := t.TempDir()
	s := startSigner(t, fmt.Sprintf("{issuers: {corp: {issuer: %q}}, login: {issuer: corp, client_id: weir-web}, server: {people: corp}, roles: {operator: {groups: [sre]}}}", idp.Issuer()),
		fmt.Sprintf("audit: {dir: %q}", log), onlySRE)
	const redirect = "https://app.example/back"
	client := s.register(redirect)
	signIn := func() map[string]any {
		t.Helper()
		verifier := rand.Text() + rand.Text()
		at := s.code(client, redirect, verifier, nil) // to the provider, which signs the person in at once
		resp, err := s.browser.Get(at.String())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		back, err := resp.Location()
		if err != nil || !strings.HasPrefix(back.String(), s.base+"/connect/callback?") {
			t.Fatalf("%v, %v", back, err)
		}
		resp, page := s.open("GET", strings.TrimPrefix(back.String(), s.base), nil)
		if resp.StatusCode == http.StatusOK {
			resp, page = s.open("POST", "/oauth/consent", url.Values{"request": {s.hidden(page)}, "decision": {"allow"}})
		}
		end, err := resp.Location()
		if err != nil {
			t.Fatalf("%d %s", resp.StatusCode, page)
		}
		status, tokens := s.tokens(client, redirect, verifier, end)
		if status != 200 {
			t.Fatalf("%d %v", status, tokens)
		}
		return tokens
	}
	first := signIn()
	if status, body := s.whoami(first["access_token"]); status != 200 || !strings.Contains(body, `"principal":"corp:u1"`) || !strings.Contains(body, `"issuer":"corp"`) || !strings.Contains(body, `"operator"`) {
		t.Fatalf("%d %s", status, body)
	}
	if resp, body := s.do("POST", "/mcp", idp.Token(map[string]any{"aud": s.base + "/mcp"}), initialize); resp.StatusCode != 200 {
		t.Errorf("a token of the provider itself: %d %s", resp.StatusCode, body)
	}
	console := newConsoleBrowser(t, s.base)
	if who := console.signIn(); who.Principal != "corp:u1" {
		t.Fatalf("the console: %+v", who)
	}
	second := signIn() // without a page: the person has agreed
	idp.SetIDToken(map[string]any{"groups": []string{"dev"}, "nonce": nil, "sid": "s1"})
	status, renewed := s.refresh(client, second["refresh_token"])
	if status != 200 {
		t.Fatalf("%d %v", status, renewed)
	}
	if _, body := s.whoami(renewed["access_token"]); strings.Contains(body, "operator") || !strings.Contains(body, `"dev"`) {
		t.Errorf("the groups of now: %s", body)
	}
	now := time.Now().Unix()
	logout := idp.Signer().Sign(map[string]any{"typ": "logout+jwt"}, map[string]any{"iss": idp.Issuer(), "aud": "weir-web", "iat": now, "exp": now + 60, "jti": "j", "sid": "s1",
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}})
	if status, out := s.post("/oauth/backchannel-logout", "application/x-www-form-urlencoded", url.Values{"logout_token": {logout}}.Encode()); status != 200 {
		t.Fatalf("%d %v", status, out)
	}
	for _, token := range []any{first["access_token"], renewed["access_token"]} {
		if status, _ := s.whoami(token); status != 401 {
			t.Errorf("after the logout: %d", status)
		}
	}
	if _, body := console.ask("GET", "/login"); strings.Contains(body, "corp:u1") {
		t.Errorf("the console after the logout: %s", body)
	}
	if status, _ := s.refresh(client, renewed["refresh_token"]); status != 400 {
		t.Errorf("a refresh after the logout: %d", status)
	}
	var told []string
	for range 100 {
		page, err := s.gateway.Auditor.Page(t.Context(), audit.Query{})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(page)
		if err != nil {
			t.Fatal(err)
		}
		if told = []string{string(raw)}; strings.Contains(told[0], "logged out") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, what := range []string{"signed in", "consented", "registered", "issued", "renewed", "logged out", "corp:u1", client} {
		if !strings.Contains(told[0], what) {
			t.Errorf("the audit log does not tell %q: %s", what, told[0])
		}
	}
	if strings.Contains(told[0], "weir_rt_") || strings.Contains(told[0], first["access_token"].(string)) {
		t.Error("the audit log has a token")
	}
}

// TestAccountsAtTheConsole: a person with an account signs in at the console with the same form, and is an operator by
// its groups.
func TestAccountsAtTheConsole(t *testing.T) {
	s := startSigner(t, "")
	b := &consoleBrowser{t, s.base, s.browser}
	status, body := b.ask("POST", "/login")
	var begun struct{ Address string }
	if err := json.Unmarshal([]byte(body), &begun); err != nil || status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	_, page := s.open("GET", strings.TrimPrefix(begun.Address, s.base), nil)
	resp, page := s.open("POST", "/oauth/signin", url.Values{"request": {s.hidden(page)}, "name": {"ann"}, "password": {annsPassword}})
	back, err := resp.Location()
	if err != nil || !strings.HasPrefix(back.String(), s.base+"/connect/callback?") {
		t.Fatalf("%d %v %s", resp.StatusCode, back, page)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {"weir-pages"}, "code": {back.Query().Get("code")}}
	if status, out := s.post("/oauth/token", "application/x-www-form-urlencoded", form.Encode()); status != 401 {
		t.Errorf("a code of the console is exchanged: %d %v", status, out)
	}
	if resp, page = s.open("GET", strings.TrimPrefix(back.String(), s.base), nil); resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", resp.StatusCode, page)
	}
	_, body = b.ask("GET", "/login")
	if !strings.Contains(body, `"principal":"account:ann"`) || !strings.Contains(body, "operator") {
		t.Errorf("the console: %s", body)
	}
	if resp, _ := s.open("GET", strings.TrimPrefix(back.String(), s.base), nil); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a code works twice: %d", resp.StatusCode)
	}
}

// TestFormsOfOtherPages: a page of another origin sends no form of the authorization server, although the browser has the
// person's cookies, and its programs are asked for from any page. Without auth.server there is none of it.
func TestFormsOfOtherPages(t *testing.T) {
	s := startSigner(t, "")
	client := s.register("https://app.example/back")
	q := url.Values{
		"client_id": {client}, "redirect_uri": {"https://app.example/back"}, "response_type": {"code"}, "code_challenge": {issuers.Challenge(rand.Text() + rand.Text())},
		"code_challenge_method": {"S256"}, "resource": {s.base + "/mcp"}, "state": {"st"},
	}
	_, page := s.open("GET", "/oauth/authorize?"+q.Encode(), nil)
	send := func(path, origin string, form url.Values) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.base+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		resp, err := s.browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	password := url.Values{"request": {s.hidden(page)}, "name": {"ann"}, "password": {annsPassword}}
	for _, origin := range []string{"https://evil.example", "null", strings.Replace(s.base, "127.0.0.1", "localhost", 1), "http://127.0.0.1:1"} {
		for _, path := range []string{"/oauth/signin", "/oauth/consent", "/oauth/logout"} {
			if status := send(path, origin, password); status != http.StatusForbidden {
				t.Errorf("%s from %s: %d", path, origin, status)
			}
		}
	}
	if status := send("/oauth/token", "https://evil.example", url.Values{"grant_type": {"authorization_code"}, "client_id": {client}, "code": {"x"}}); status != http.StatusBadRequest {
		t.Errorf("a program in a page: %d", status)
	}
	if status := send("/oauth/signin", s.base, password); status != http.StatusOK {
		t.Errorf("the own page: %d", status)
	}
	p := startProtected(t)
	for _, path := range []string{"/oauth/authorize", "/oauth/token", "/oauth/register", "/oauth/jwks", "/oauth/logout", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		if resp, _ := p.do("GET", path, "", ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s without auth.server: %d", path, resp.StatusCode)
		}
	}
}

// TestSignInAtGitHub: a provider without ID tokens says who the person is, with the teams as groups, and is asked again at
// each refresh with the token that it gave. A person who has taken the token back has no more tokens of weir.
func TestSignInAtGitHub(t *testing.T) {
	idp, provider := fakeidp.Start(fakeidp.Options{Plain: true, ClientID: "weir-web", ClientSecret: "0123456789abcdef"}, "/login/oauth")
	t.Cleanup(provider.Close)
	at := provider.URL
	idp.SetMetadata(map[string]any{"authorization_response_iss_parameter_supported": nil, "jwks_uri": nil})
	idp.About(at+"/user", map[string]any{"login": "ann", "node_id": "U_1"}, false)
	teams := func(slug string) {
		idp.About(at+"/user/teams", []any{map[string]any{"html_url": "https://github.com/orgs/CORP/teams/" + slug}}, false)
	}
	teams("sre")
	s := startSigner(t, fmt.Sprintf("{issuers: {hub: {issuer: %q, subject: node_id, groups: teams.html_url}}, login: {issuer: hub, client_id: weir-web, client_secret: 0123456789abcdef, userinfo: [%q, %q]}, server: {people: hub}, roles: {operator: {groups: [\"https://github.com/orgs/CORP/teams/sre\"]}}}",
		idp.Issuer(), at+"/user", at+"/user/teams"))
	const redirect = "https://app.example/back"
	client, verifier := s.register(redirect), rand.Text()+rand.Text()
	resp, err := s.browser.Get(s.code(client, redirect, verifier, nil).String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	_, page := s.open("GET", strings.TrimPrefix(resp.Header.Get("Location"), s.base), nil)
	resp, page = s.open("POST", "/oauth/consent", url.Values{"request": {s.hidden(page)}, "decision": {"allow"}})
	back, err := resp.Location()
	if err != nil {
		t.Fatalf("%d %s", resp.StatusCode, page)
	}
	status, tokens := s.tokens(client, redirect, verifier, back)
	if status != 200 {
		t.Fatal(tokens)
	}
	if _, body := s.whoami(tokens["access_token"]); !strings.Contains(body, `"principal":"hub:U_1"`) || !strings.Contains(body, "operator") {
		t.Errorf("%s", body)
	}
	teams("dev")
	status, tokens = s.refresh(client, tokens["refresh_token"])
	if status != 200 {
		t.Fatal(tokens)
	}
	if _, body := s.whoami(tokens["access_token"]); strings.Contains(body, "operator") || !strings.Contains(body, "teams/dev") {
		t.Errorf("the teams of now: %s", body)
	}
	idp.EndTokens()
	if status, out := s.refresh(client, tokens["refresh_token"]); status != 400 || out["error"] != "invalid_grant" {
		t.Errorf("after the token was taken back: %d %v", status, out)
	}
	if status, _ := s.whoami(tokens["access_token"]); status != 401 {
		t.Errorf("the access token after that: %d", status)
	}
}
