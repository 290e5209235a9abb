package gateway_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// signingNodes is two nodes that sign clients in under one URL, and a browser.
type signingNodes struct {
	t       *testing.T
	nodes   *gatewaytest.Nodes
	idp     *fakeidp.Provider
	at      atomic.Int32 // the node that gets the next request
	url     string
	browser *http.Client
}

func startSigningNodes(t *testing.T) *signingNodes {
	t.Helper()
	s := &signingNodes{t: t, nodes: gatewaytest.StartNodes(t, 0)}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.nodes.All[s.at.Load()].Server.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	idp, provider := fakeidp.Start(fakeidp.Options{}, "/t")
	t.Cleanup(provider.Close)
	idp.SetMetadata(map[string]any{"scopes_supported": []string{"openid", "offline_access"}, "end_session_endpoint": idp.Issuer() + "/out"})
	s.idp, s.url = idp, front.URL
	s.nodes.More = "public_url: " + front.URL + "\n"
	s.nodes.Auth = fmt.Sprintf("{issuers: {corp: {issuer: %q}}, login: {issuer: corp, client_id: weir-web}, server: {people: corp}}", idp.Issuer())
	s.nodes.Start("n0")
	s.nodes.Start("n1")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.browser = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// ask sends a request of the browser to a node.
func (s *signingNodes) ask(node int, method, address, kind, body string, header ...string) (*http.Response, string) {
	s.t.Helper()
	s.at.Store(int32(node))
	if strings.HasPrefix(address, "/") {
		address = s.url + address
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Origin", s.url)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.browser.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(raw)
}

const formKind = "application/x-www-form-urlencoded"

func (s *signingNodes) form(node int, path string, values url.Values) (int, map[string]any) {
	s.t.Helper()
	resp, body := s.ask(node, http.MethodPost, path, formKind, values.Encode())
	var out map[string]any
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		s.t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	return resp.StatusCode, out
}

var hiddenRequest = regexp.MustCompile(`name="request" value="([^"]+)"`)

// code signs the person in for a client, each step at the other node, and returns the code and its verifier.
func (s *signingNodes) code(client string) (code, verifier string) {
	s.t.Helper()
	verifier = rand.Text() + rand.Text()
	q := url.Values{
		"client_id": {client}, "redirect_uri": {"https://app.example/back"}, "response_type": {"code"}, "code_challenge": {issuers.Challenge(verifier)},
		"code_challenge_method": {"S256"}, "resource": {s.url + "/mcp"}, "scope": {"mcp"}, "prompt": {"consent"},
	}
	resp, _ := s.ask(0, http.MethodGet, "/oauth/authorize?"+q.Encode(), "", "")
	resp, _ = s.ask(0, http.MethodGet, resp.Header.Get("Location"), "", "") // the provider signs the person in at once
	_, page := s.ask(1, http.MethodGet, resp.Header.Get("Location"), "", "")
	m := hiddenRequest.FindStringSubmatch(page)
	if m == nil {
		s.t.Fatalf("no page for consent: %s", page)
	}
	resp, page = s.ask(0, http.MethodPost, "/oauth/consent", formKind, url.Values{"request": {m[1]}, "decision": {"allow"}}.Encode())
	back, err := resp.Location()
	if err != nil || back.Query().Get("code") == "" {
		s.t.Fatalf("%d %s", resp.StatusCode, page)
	}
	return back.Query().Get("code"), verifier
}

func (s *signingNodes) redeem(node int, client, code, verifier string) (int, map[string]any) {
	return s.form(node, "/oauth/token", url.Values{"grant_type": {"authorization_code"}, "client_id": {client}, "code": {code}, "redirect_uri": {"https://app.example/back"}, "code_verifier": {verifier}})
}

func (s *signingNodes) opens(node int, token any) bool {
	s.t.Helper()
	resp, _ := s.ask(node, http.MethodGet, "/whoami", "", "", "Authorization", "Bearer "+token.(string))
	return resp.StatusCode == http.StatusOK
}

// refuses reports whether a node refuses a token, or does within the second that news from the store may take.
func (s *signingNodes) refuses(node int, token any) bool {
	s.t.Helper()
	for range 100 {
		if !s.opens(node, token) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// console signs the person in at the console of a node.
func (s *signingNodes) console(node int) {
	s.t.Helper()
	resp, body := s.ask(node, http.MethodPost, "/login", "application/json", "{}")
	var begun struct{ Address string }
	if err := json.Unmarshal([]byte(body), &begun); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	resp, _ = s.ask(node, http.MethodGet, begun.Address, "", "")
	if resp, body = s.ask(node, http.MethodGet, resp.Header.Get("Location"), "", ""); resp.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("%d %s", resp.StatusCode, body)
	}
}

// signedIn returns who is signed in at the console of a node, and the token for changes.
func (s *signingNodes) signedIn(node int) (who struct{ Principal, Token string }) {
	s.t.Helper()
	_, body := s.ask(node, http.MethodGet, "/login", "", "")
	if err := json.Unmarshal([]byte(body), &who); err != nil {
		s.t.Fatal(err)
	}
	return who
}

// logout tells a node that the provider has ended a session.
func (s *signingNodes) logout(node int, id, session string) {
	s.t.Helper()
	now := time.Now().Unix()
	token := s.idp.Signer().Sign(map[string]any{"typ": "logout+jwt"}, map[string]any{"iss": s.idp.Issuer(), "aud": "weir-web", "iat": now, "exp": now + 60, "jti": id, "sid": session,
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}})
	resp, body := s.ask(node, http.MethodPost, "/oauth/backchannel-logout", formKind, url.Values{"logout_token": {token}}.Encode())
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("a logout token: %d %s", resp.StatusCode, body)
	}
}

// TestSignInsAtAnyNode: each step of a sign-in may come to another node, and a code works once for all of them.
func TestSignInsAtAnyNode(t *testing.T) {
	s := startSigningNodes(t)
	_, body := s.ask(0, http.MethodPost, "/oauth/register", "application/json", `{"client_name": "Test client", "redirect_uris": ["https://app.example/back"], "token_endpoint_auth_method": "none"}`)
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(body), &client); err != nil || client.ID == "" {
		t.Fatal(body)
	}
	code, verifier := s.code(client.ID)
	status, tokens := s.redeem(1, client.ID, code, verifier)
	if status != http.StatusOK || !s.opens(0, tokens["access_token"]) || !s.opens(1, tokens["access_token"]) {
		t.Fatalf("the code of n0 at n1: %d %v", status, tokens)
	}
	if status, again := s.redeem(0, client.ID, code, verifier); status != http.StatusBadRequest || again["error"] != "invalid_grant" {
		t.Errorf("the code works twice: %d %v", status, again)
	}
	for node := range 2 {
		if !s.refuses(node, tokens["access_token"]) {
			t.Errorf("n%d takes a token whose code was stolen", node)
		}
	}
}

// TestLogoutsAtAnyNode: the provider tells one node that a session has ended. No node takes its tokens and its login at
// the console from then on, another session goes on, and a repetition ends nothing.
func TestLogoutsAtAnyNode(t *testing.T) {
	s := startSigningNodes(t)
	_, body := s.ask(0, http.MethodPost, "/oauth/register", "application/json", `{"redirect_uris": ["https://app.example/back"], "token_endpoint_auth_method": "none"}`)
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(body), &client); err != nil || client.ID == "" {
		t.Fatal(body)
	}
	signIn := func(session string) map[string]any {
		t.Helper()
		s.idp.SetIDToken(map[string]any{"sid": session})
		code, verifier := s.code(client.ID)
		status, tokens := s.redeem(0, client.ID, code, verifier)
		if status != http.StatusOK {
			t.Fatal(tokens)
		}
		return tokens
	}
	first := signIn("s1")
	s.console(1)
	second := signIn("s2")
	if who := s.signedIn(1); who.Principal != "corp:u1" {
		t.Fatalf("not signed in: %+v", who)
	}
	s.logout(0, "l1", "s1")
	for node := range 2 {
		if !s.refuses(node, first["access_token"]) {
			t.Errorf("n%d takes a token of the session that has ended", node)
		}
		if !s.opens(node, second["access_token"]) {
			t.Errorf("n%d refuses a token of another session", node)
		}
	}
	for tries := 0; s.signedIn(1).Principal != ""; tries++ {
		if tries == 100 {
			t.Fatal("a login at n1 goes on after a logout at n0")
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.idp.SetIDToken(map[string]any{"sid": "s1"}) // a provider that names sessions by the browser
	s.console(1)
	s.logout(0, "l1", "s1")
	who := s.signedIn(1)
	if who.Principal != "corp:u1" {
		t.Error("a repetition of a logout ends a later login")
	}
	resp, body := s.ask(1, http.MethodDelete, "/login", "application/json", "{}", "Weir-Login", who.Token)
	var out struct{ Address string }
	if err := json.Unmarshal([]byte(body), &out); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	at, err := url.Parse(out.Address)
	if err != nil || !strings.HasPrefix(out.Address, s.idp.Issuer()+"/out?") || at.Query().Get("post_logout_redirect_uri") != s.url+"/console" || strings.Count(at.Query().Get("id_token_hint"), ".") != 2 {
		t.Errorf("the console's sign-out sends the browser to %q, %v", out.Address, err)
	}
	if who := s.signedIn(1); who.Principal != "" {
		t.Error("signed in after the sign-out")
	}
}
