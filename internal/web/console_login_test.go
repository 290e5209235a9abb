package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"
)

// A consoleBrowser is a browser at the console of a gateway.
type consoleBrowser struct {
	t       *testing.T
	base    string
	browser *http.Client
}

func newConsoleBrowser(t *testing.T, base string) *consoleBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &consoleBrowser{t, base, &http.Client{Jar: jar}}
}

// ask sends a request as the page does, or as another page with header.
func (b *consoleBrowser) ask(method, path string, header ...string) (int, string) {
	b.t.Helper()
	at := path
	if strings.HasPrefix(path, "/") {
		at = b.base + path
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, at, strings.NewReader("{}"))
	if err != nil {
		b.t.Fatal(err)
	}
	if method != http.MethodGet {
		r.Header.Set("Origin", b.base)
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := b.browser.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// signIn signs the person in whom the issuer names, and returns the answer of GET /login.
func (b *consoleBrowser) signIn() (who struct {
	Login, Principal, Token string
	Roles                   []string
}) {
	b.t.Helper()
	var begun struct{ Address string }
	if status, body := b.ask(http.MethodPost, "/login"); status != http.StatusOK || json.Unmarshal([]byte(body), &begun) != nil {
		b.t.Fatalf("no login: %d %s", status, body)
	}
	if status, page := b.ask(http.MethodGet, begun.Address); status != http.StatusOK || !strings.Contains(page, "weir console") {
		b.t.Fatalf("the browser is not back at the console: %d %.300s", status, page)
	}
	_, body := b.ask(http.MethodGet, "/login")
	if err := json.Unmarshal([]byte(body), &who); err != nil {
		b.t.Fatal(err)
	}
	return who
}

// TestConsoleLogin: a person who signs in at the issuer has the rights of their roles in the console,
// changes need the token of the login, and nothing else knows the login (spec/signin §10).
func TestConsoleLogin(t *testing.T) {
	p := startProtected(t)
	const look, operate = "/api/v1/overview", "/api/v1/servers/up/restart"
	p.idp.SetIDToken(map[string]any{"sub": "ada", "groups": []string{"sre"}})
	ada := newConsoleBrowser(t, p.base)
	if status, _ := ada.ask(http.MethodGet, look); status != http.StatusUnauthorized {
		t.Fatalf("without a login: %d", status)
	}
	who := ada.signIn()
	if who.Login != "corp" || who.Principal != "corp:ada" || strings.Join(who.Roles, " ") != "operator" || who.Token == "" {
		t.Fatalf("signed in as %+v", who)
	}
	other := newConsoleBrowser(t, p.base)
	for _, tt := range []struct {
		name         string
		by           *consoleBrowser
		method, path string
		header       []string
		want         int
	}{
		{"look", ada, http.MethodGet, look, nil, http.StatusOK},
		{"another browser", other, http.MethodGet, look, nil, http.StatusUnauthorized},
		{"another page of this machine", ada, http.MethodGet, look, []string{"Origin", "http://127.0.0.1:3000"}, http.StatusForbidden},
		{"a wrong token, which decides before the login", ada, http.MethodGet, look, []string{"Authorization", "Bearer wrong"}, http.StatusUnauthorized},
		{"a change without the login's token", ada, http.MethodPost, operate, nil, http.StatusForbidden},
		{"a change with another token", ada, http.MethodPost, operate, []string{"Weir-Login", strings.Repeat("0", 64)}, http.StatusForbidden},
		{"a change for another page", ada, http.MethodPost, operate, []string{"Weir-Login", who.Token, "Origin", "http://127.0.0.1:3000"}, http.StatusForbidden},
		{"a change that is not JSON", ada, http.MethodPost, operate, []string{"Weir-Login", who.Token, "Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		{"a change", ada, http.MethodPost, operate, []string{"Weir-Login", who.Token}, http.StatusOK},
		{"the token of the login alone", other, http.MethodPost, operate, []string{"Weir-Login", who.Token}, http.StatusUnauthorized},
		{"a call", ada, http.MethodPost, "/mcp", []string{"Weir-Login", who.Token, "Accept", "application/json, text/event-stream"}, http.StatusBadRequest}, // {} is no message
		{"a call without the login's token", ada, http.MethodPost, "/mcp", nil, http.StatusForbidden},
		{"a call for another page of this machine", ada, http.MethodPost, "/mcp", []string{"Weir-Login", who.Token, "Origin", "http://127.0.0.1:3000"}, http.StatusUnauthorized},
		{"a stream for another page of this machine", ada, http.MethodGet, "/mcp", []string{"Origin", "http://127.0.0.1:3000"}, http.StatusUnauthorized},
		{"a kept result", ada, http.MethodGet, "/artifacts/none", nil, http.StatusNotFound},
		{"a kept result without a login", other, http.MethodGet, "/artifacts/none", nil, http.StatusUnauthorized},
		{"a server's own path", ada, http.MethodPost, "/mcps/up/mcp", []string{"Weir-Login", who.Token}, http.StatusUnauthorized},
		{"a call without the login's token", ada, http.MethodPost, "/api/v1/mcp", nil, http.StatusForbidden},
		{"a call of another browser", other, http.MethodPost, "/api/v1/mcp", []string{"Weir-Login", who.Token}, http.StatusUnauthorized},
		{"a call, which is no message of MCP", ada, http.MethodPost, "/api/v1/mcp", []string{"Weir-Login", who.Token}, http.StatusBadRequest},
		{"a look through a proxy that changes the Host", ada, http.MethodGet, look, []string{"Host", "127.0.0.1:1", "Origin", p.base}, http.StatusOK},
		{"a change through such a proxy", ada, http.MethodPost, operate, []string{"Host", "127.0.0.1:1", "Weir-Login", who.Token}, http.StatusOK},
		{"a call through such a proxy", ada, http.MethodPost, "/mcp", []string{"Host", "127.0.0.1:1", "Weir-Login", who.Token, "Accept", "application/json, text/event-stream"}, http.StatusBadRequest},
		{"another page through such a proxy", ada, http.MethodPost, operate, []string{"Host", "127.0.0.1:1", "Weir-Login", who.Token, "Origin", "http://127.0.0.1:3000"}, http.StatusForbidden},
		{"a call for another page through such a proxy", ada, http.MethodPost, "/mcp", []string{"Host", "127.0.0.1:1", "Weir-Login", who.Token, "Origin", "http://127.0.0.1:3000"}, http.StatusUnauthorized},
		{"the statistics", ada, http.MethodGet, "/stats", nil, http.StatusUnauthorized},
		{"a login for another page", ada, http.MethodPost, "/login", []string{"Origin", "http://127.0.0.1:3000"}, http.StatusForbidden},
		{"who is signed in, for another page", ada, http.MethodGet, "/login", []string{"Origin", "http://127.0.0.1:3000"}, http.StatusForbidden},
		{"a sign-out without the token", ada, http.MethodDelete, "/login", nil, http.StatusForbidden},
	} {
		if status, body := tt.by.ask(tt.method, tt.path, tt.header...); status != tt.want {
			t.Errorf("%s: %d, want %d: %.300s", tt.name, status, tt.want, body)
		}
	}
	p.idp.SetIDToken(map[string]any{"sub": "bob", "groups": []string{"audit"}})
	bob := newConsoleBrowser(t, p.base)
	seen := bob.signIn()
	if status, _ := bob.ask(http.MethodGet, look); status != http.StatusOK {
		t.Errorf("an auditor looks: %d", status)
	}
	if status, body := bob.ask(http.MethodPost, operate, "Weir-Login", seen.Token); status != http.StatusForbidden || !strings.Contains(body, "auth.roles.operator") {
		t.Errorf("an auditor operates: %d %s", status, body)
	}
	if status, _ := ada.ask(http.MethodDelete, "/login", "Weir-Login", who.Token); status != http.StatusOK {
		t.Errorf("sign-out: %d", status)
	}
	if status, _ := ada.ask(http.MethodGet, look); status != http.StatusUnauthorized {
		t.Errorf("after the sign-out: %d", status)
	}
	// A page under another name than the issuer sends the browser back to goes there first.
	if status, body := other.ask(http.MethodPost, strings.Replace(p.base, "127.0.0.1", "localhost", 1)+"/login", "Origin", strings.Replace(p.base, "127.0.0.1", "localhost", 1)); status != http.StatusOK || !strings.Contains(body, p.base+"/console") {
		t.Errorf("another name: %d %s", status, body)
	}
	p.reload(strings.Replace(p.text, "groups: [audit]", "groups: [auditors]", 1))
	if status, _ := bob.ask(http.MethodGet, look); status != http.StatusUnauthorized {
		t.Errorf("after a change of auth: %d", status)
	}
}

// TestLogoutByTheIssuer: a login ends when the issuer says so, in the terms of OpenID Connect Back-Channel Logout,
// also where weir signs no clients in.
func TestLogoutByTheIssuer(t *testing.T) {
	p := startProtected(t)
	p.idp.SetIDToken(map[string]any{"sub": "ada", "groups": []string{"sre"}})
	ada := newConsoleBrowser(t, p.base)
	ada.signIn()
	now := time.Now().Unix()
	token := p.idp.Signer().Sign(map[string]any{"typ": "logout+jwt"}, map[string]any{"iss": p.idp.Issuer(), "aud": "weir-web", "iat": now, "exp": now + 60, "jti": "l1", "sub": "ada",
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}})
	for _, c := range []struct {
		name, method, token string
		header              []string
		want                int
		after               int // what the console answers the person
	}{
		{"a link", http.MethodGet, token, nil, http.StatusNotFound, http.StatusOK},
		{"no token", http.MethodPost, "", nil, http.StatusBadRequest, http.StatusOK},
		{"an ID token", http.MethodPost, p.idp.Token(map[string]any{"aud": "weir-web", "sub": "ada"}), nil, http.StatusBadRequest, http.StatusOK},
		{"a form that is too long", http.MethodPost, token + "&more=" + strings.Repeat("x", 64<<10), nil, http.StatusBadRequest, http.StatusOK},
		{"another host", http.MethodPost, token, []string{"Host", "evil.example"}, http.StatusForbidden, http.StatusOK},
		{"a logout token", http.MethodPost, token, nil, http.StatusOK, http.StatusUnauthorized},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, p.base+"/oauth/backchannel-logout", strings.NewReader("logout_token="+c.token))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if c.header != nil {
			r.Host = c.header[1]
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status, _ := ada.ask(http.MethodGet, "/api/v1/overview"); resp.StatusCode != c.want || status != c.after {
			t.Errorf("%s: %d, and the person gets %d", c.name, resp.StatusCode, status)
		}
		if c.want == http.StatusOK && resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the answer may be cached", c.name)
		}
	}
}
