package web_test

import (
	"context"
	"fmt"
	"html"
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

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/testkit/oauthtest"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// TestSignInPagesAreOwn asks for a page of a sign-in as a page of another port of this machine.
func TestSignInPagesAreOwn(t *testing.T) {
	p := startProtected(t)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
		r, err := http.NewRequestWithContext(t.Context(), method, p.base+"/connect/up", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "http://127.0.0.1:3000")
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, headers %v", method, resp.StatusCode, resp.Header)
		}
	}
}

// A person is a browser at the pages of a gateway.
type person struct {
	t       *testing.T
	base    string
	browser *http.Client
}

var formText = regexp.MustCompile(`name="form" value="([0-9a-f]{64})"`)

// open opens a page and returns its status and its text.
func (p person) open(at string) (int, string, http.Header) {
	p.t.Helper()
	return p.read(p.browser.Get(at))
}

func (p person) read(resp *http.Response, err error) (int, string, http.Header) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// begin begins a sign-in and returns where the provider sends the browser.
func (p person) begin(idp *oauthtest.Server) string {
	p.t.Helper()
	_, page, _ := p.open(p.base + "/connect/notes")
	m := formText.FindStringSubmatch(page)
	if m == nil {
		p.t.Fatalf("no form: %s", page)
	}
	_, page, header := p.read(p.browser.PostForm(p.base+"/connect/notes", url.Values{"form": {m[1]}, "go": {"yes"}}))
	_, next, ok := strings.Cut(header.Get("Refresh"), "url=")
	if !ok {
		p.t.Fatalf("no sign-in: %s", page)
	}
	back, err := idp.Browse(next)
	if err != nil {
		p.t.Fatal(err)
	}
	return back.String()
}

// TestSignInOutlivesReload changes the configuration while a person is at the provider: the sign-in goes
// on, and ends if the callers have changed.
func TestSignInOutlivesReload(t *testing.T) {
	idp := oauthtest.New()
	t.Cleanup(idp.Close)
	var server *web.Server
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	parse := func(more string) *config.Config {
		t.Helper()
		c, _, err := config.Parse("weir.yaml", fmt.Appendf(nil, "mcpServers: {notes: {url: %q}}\n%s", idp.URL+"/mcp", more), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	log, first := slog.New(slog.DiscardHandler), parse("")
	g, err := gateway.New(t.Context(), first, gateway.Options{Version: "test", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	server = web.NewHandler(g, first, front.URL, api.Machine{}, log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		g.Close(ctx)
	})
	jar, _ := cookiejar.New(nil)
	p := person{t, front.URL, &http.Client{Jar: jar}}
	second := parse("mode: gateway\n")
	back := p.begin(idp)
	server.Apply(first, second)
	if status, page, _ := p.open(back); status != http.StatusOK || !strings.Contains(page, "Signed in at notes") {
		t.Errorf("after a reload: %d %s", status, page)
	}
	back = p.begin(idp)
	server.Apply(second, parse("auth: {tokens: [{name: ann, sha256: "+strings.Repeat("ab", 32)+"}]}\n"))
	if status, page, _ := p.open(back); status != http.StatusBadRequest {
		t.Errorf("after a change of auth: %d %s", status, page)
	}
	if n := idp.Count("sign-in"); n != 1 {
		t.Errorf("%d sign-ins", n)
	}
}

// TestBrowserLogin tells the gateway at the issuer who a person is.
func TestBrowserLogin(t *testing.T) {
	p := startProtected(t)
	p.idp.SetIDToken(map[string]any{"sub": "ada", "groups": []string{"sre"}})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	read := func(resp *http.Response, err error) (*http.Response, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	at := p.base + "/connect/up"
	_, page := read(browser.Get(at))
	field := regexp.MustCompile(`name="form" value="([0-9a-f]{64})"`).FindStringSubmatch(page)
	if field == nil || !strings.Contains(page, "Go on with corp") {
		t.Fatalf("no login: %s", page)
	}
	resp, page := read(browser.PostForm(at, url.Values{"form": {field[1]}, "login": {"yes"}}))
	address, ok := strings.CutPrefix(resp.Header.Get("Refresh"), "0;url=")
	if !ok || !strings.HasPrefix(address, p.idp.Issuer()+"/authorize?") || !strings.Contains(page, html.EscapeString(address)) {
		t.Fatalf("%d %q: %s", resp.StatusCode, address, page)
	}
	// A page of another person does not take this browser's answer.
	stranger, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, _ = read(other.Do(stranger))
	if resp, page = read(other.Get(resp.Header.Get("Location"))); resp.StatusCode != http.StatusBadRequest || strings.Contains(page, "ada") {
		t.Errorf("another browser: %d %s", resp.StatusCode, page)
	}
	resp, page = read(browser.Get(address))
	if resp.Request.URL.String() != at || !strings.Contains(page, "You are corp:ada at this gateway") {
		t.Errorf("%s %d: %s", resp.Request.URL, resp.StatusCode, page)
	}
	if resp, page = read(browser.Get(resp.Request.Response.Request.URL.String())); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("the same answer again: %d %s", resp.StatusCode, page)
	}
}
