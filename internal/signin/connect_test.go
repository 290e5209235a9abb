package signin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin"
	"github.com/weir-mcp/weir/internal/store"
)

// provider is an authorization server that agrees at once.
type provider struct{ began, finished []string }

func (p *provider) Owner(caller *identity.Identity, server string) (string, error) {
	if server != "notes" {
		return "", errors.New("no such server")
	}
	return "of " + caller.Principal, nil
}

func (p *provider) Begin(_ context.Context, server, principal, redirect string) (string, string, error) {
	p.began = append(p.began, server+" "+principal+" "+redirect)
	return "https://login.example.com/authorize?a=1&b=2", "state-1", nil
}

func (p *provider) Finish(_ context.Context, principal, tail string, _ url.Values) (string, error) {
	p.finished = append(p.finished, principal+tail)
	return "notes", nil
}

// visit sends a request with the cookies of an earlier answer.
func visit(pages http.Handler, method, at string, form url.Values, cookies []*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, at, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	return w
}

var formField = regexp.MustCompile(`name="form" value="([0-9a-f]{64})"`)

// TestLocal walks through the pages of a gateway without authentication, and lets the time of the
// browser's session end.
func TestLocal(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &provider{}
	pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: p, Front: signin.Front{Base: "https://weir.example.com"}, Now: func() time.Time { return now }})
	first := visit(pages, http.MethodGet, "/connect/notes", nil, nil)
	cookies := first.Result().Cookies()
	if len(cookies) != 1 || cookies[0].Name != "__Host-weir_connect" || !cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].Path != "/" || cookies[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("cookies %v", cookies)
	}
	m := formField.FindStringSubmatch(first.Body.String())
	if m == nil {
		t.Fatalf("no form: %s", first.Body)
	}
	form := url.Values{"form": {m[1]}, "go": {"yes"}}
	if w := visit(pages, http.MethodPost, "/connect/notes", form, nil); w.Code != http.StatusForbidden || len(p.began) != 0 {
		t.Errorf("a form without the cookie: %d %v", w.Code, p.began)
	}
	w := visit(pages, http.MethodPost, "/connect/notes", form, cookies)
	cookies = w.Result().Cookies() // the session's
	if len(p.began) != 1 || p.began[0] != "notes of local https://weir.example.com/connect/callback" || w.Header().Get("Refresh") != "0;url=https://login.example.com/authorize?a=1&b=2" || !strings.Contains(w.Body.String(), `href="https://login.example.com/authorize?a=1&amp;b=2"`) {
		t.Errorf("began %q, header %v: %s", p.began, w.Header(), w.Body)
	}
	if w := visit(pages, http.MethodGet, "/connect/callback?state=other&code=x", nil, cookies); w.Code != http.StatusBadRequest || len(p.finished) != 0 {
		t.Errorf("another state: %d %v", w.Code, p.finished)
	}
	now = now.Add(11 * time.Minute)
	if w := visit(pages, http.MethodGet, "/connect/callback?state=state-1&code=x", nil, cookies); w.Code != http.StatusBadRequest || len(p.finished) != 0 {
		t.Errorf("after its time: %d %v", w.Code, p.finished)
	}
}

// TestEscapes shows names of servers and problems as text.
func TestEscapes(t *testing.T) {
	pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: &provider{}, Front: signin.Front{Base: "http://127.0.0.1:1"}})
	w := visit(pages, http.MethodGet, "/connect/%3Cscript%3Ex", nil, nil)
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "<script") || !strings.Contains(w.Body.String(), "&lt;script") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := visit(pages, http.MethodPut, "/connect/notes", nil, nil); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", w.Code)
	}
}

// TestFixation signs in with a cookie that another person has planted: the session has a new one.
func TestFixation(t *testing.T) {
	pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: &provider{}, Front: signin.Front{Base: "http://127.0.0.1:1", Authenticate: func(*http.Request, string) (*identity.Identity, error) {
		return &identity.Identity{Principal: "victim"}, nil
	}}})
	planted := visit(pages, http.MethodGet, "/connect/notes", nil, nil)
	form := url.Values{"form": {formField.FindStringSubmatch(planted.Body.String())[1]}, "token": {"x"}}
	w := visit(pages, http.MethodPost, "/connect/notes", form, planted.Result().Cookies())
	if got := w.Result().Cookies(); w.Code != http.StatusSeeOther || len(got) != 1 || got[0].Value == planted.Result().Cookies()[0].Value {
		t.Fatalf("%d, cookies %v", w.Code, got)
	}
	if w := visit(pages, http.MethodGet, "/connect/notes", nil, planted.Result().Cookies()); strings.Contains(w.Body.String(), "victim") {
		t.Errorf("the planted cookie opens the session: %s", w.Body)
	}
	if w := visit(pages, http.MethodGet, "/connect/notes", nil, w.Result().Cookies()); !strings.Contains(w.Body.String(), "You are victim") {
		t.Errorf("the own cookie: %s", w.Body)
	}
}

// patient is a provider that looks at the context of an exchange.
type patient struct {
	provider
	gone error
	by   string
}

func (p *patient) Finish(ctx context.Context, _, _ string, _ url.Values) (string, error) {
	p.gone, p.by = ctx.Err(), identity.From(ctx).Principal
	return "notes", nil
}

// TestCrowd begins a sign-in, lets 2,000 strangers look at the page, and comes back with a browser that
// goes away at once: the sign-in ends well, in the name of its person.
func TestCrowd(t *testing.T) {
	p := &patient{}
	pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: p, Front: signin.Front{Base: "http://127.0.0.1:1"}})
	first := visit(pages, http.MethodGet, "/connect/notes", nil, nil)
	form := url.Values{"form": {formField.FindStringSubmatch(first.Body.String())[1]}, "go": {"yes"}}
	begun := visit(pages, http.MethodPost, "/connect/notes", form, first.Result().Cookies())
	cookies := append(first.Result().Cookies(), begun.Result().Cookies()...)
	for range 2000 {
		visit(pages, http.MethodGet, "/connect/notes", nil, nil)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequest(http.MethodGet, "/connect/callback?state=state-1&code=x", nil).WithContext(ctx)
	r.AddCookie(cookies[len(cookies)-1])
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	if w.Code != http.StatusOK || p.gone != nil || p.by != identity.Local {
		t.Errorf("%d, context %v of %q: %s", w.Code, p.gone, p.by, w.Body)
	}
}

// begun begins a sign-in and returns the cookies of its browser.
func begun(t *testing.T, pages *signin.Pages) []*http.Cookie {
	t.Helper()
	first := visit(pages, http.MethodGet, "/connect/notes", nil, nil)
	m := formField.FindStringSubmatch(first.Body.String())
	if m == nil {
		t.Fatalf("no form: %s", first.Body)
	}
	w := visit(pages, http.MethodPost, "/connect/notes", url.Values{"form": {m[1]}, "go": {"yes"}}, first.Result().Cookies())
	if w.Header().Get("Refresh") == "" {
		t.Fatalf("no sign-in: %d %s", w.Code, w.Body)
	}
	return w.Result().Cookies()
}

// TestApply changes the front during a sign-in: it goes on, and the next one goes to the new address.
// Forget ends it.
func TestApply(t *testing.T) {
	p := &provider{}
	front := signin.Front{Base: "http://127.0.0.1:1"}
	pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: p, Front: front})
	cookies := begun(t, pages)
	pages.Apply(signin.Front{Base: "http://127.0.0.1:2"})
	if w := visit(pages, http.MethodGet, "/connect/callback/0011?state=state-1&code=x", nil, cookies); w.Code != http.StatusOK || len(p.finished) != 1 || p.finished[0] != "of local/0011" {
		t.Errorf("after a change: %d %s", w.Code, w.Body)
	}
	cookies = begun(t, pages)
	if want := "notes of local http://127.0.0.1:2/connect/callback"; len(p.began) != 2 || p.began[1] != want {
		t.Errorf("began %q, want %q at last", p.began, want)
	}
	pages.Forget()
	if w := visit(pages, http.MethodGet, "/connect/callback?state=state-1&code=x", nil, cookies); w.Code != http.StatusBadRequest || len(p.finished) != 1 {
		t.Errorf("after the callers have changed: %d %s", w.Code, w.Body)
	}
}

// TestSecureByBase has browsers reach the pages through a proxy that speaks TLS, and directly: the
// address for browsers decides about the cookie.
func TestSecureByBase(t *testing.T) {
	for base, name := range map[string]string{"https://weir.example.com": "__Host-weir_connect", "http://weir.example.com": "weir_connect"} {
		pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: &provider{}, Front: signin.Front{Base: base}})
		for _, at := range []string{"http://weir.example.com/connect/notes", "https://weir.example.com/connect/notes"} {
			c := visit(pages, http.MethodGet, at, nil, nil).Result().Cookies()
			if len(c) != 1 || c[0].Name != name || c[0].Secure != strings.HasPrefix(base, "https") {
				t.Errorf("%s behind %s: cookies %v", at, base, c)
			}
		}
	}
}

// TestHome opens a page under another name of this machine than the provider sends the browser back to.
func TestHome(t *testing.T) {
	for _, c := range []struct{ base, at, want string }{
		{"http://127.0.0.1:8088", "http://localhost:8088/connect/notes", "http://127.0.0.1:8088/connect/notes?moved"},
		{"http://localhost:8088", "http://127.0.0.1:8088/connect/my%20notes", "http://localhost:8088/connect/my%20notes?moved"},
		{"http://127.0.0.1:8088", "http://[::1]:8088/connect/notes", "http://127.0.0.1:8088/connect/notes?moved"},
		{"http://127.0.0.1:8088", "http://127.0.0.1:9000/connect/notes", ""}, // a cookie is for all ports
		{"http://127.0.0.1:8088", "http://localhost:8088/connect/notes?moved", ""},
		{"https://weir.example.com", "http://127.0.0.1:8088/connect/notes", ""}, // a proxy changes the Host
		{"http://127.0.0.1:8088", "http://weir.example.com/connect/notes", ""},
	} {
		pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: &provider{}, Front: signin.Front{Base: c.base}})
		w := visit(pages, http.MethodGet, c.at, nil, nil)
		if got := w.Header().Get("Location"); got != c.want || (w.Code == http.StatusSeeOther) != (c.want != "") || c.want != "" && len(w.Result().Cookies()) != 0 {
			t.Errorf("%s of %s: %d %q, want %q", c.at, c.base, w.Code, got, c.want)
		}
	}
}

// idp is an identity provider that agrees at once.
type idp struct{ redirect string }

func (i *idp) Name() string { return "corp" }

func (i *idp) Begin(_ context.Context, redirect string) (string, string, identity.Secret, error) {
	i.redirect = redirect
	return "https://id.example.com/authorize", "login-1", "what only weir knows", nil
}

func (i *idp) Finish(_ context.Context, memo identity.Secret, query url.Values) (*identity.Identity, identity.Secret, error) {
	if memo != "what only weir knows" || query.Get("code") != "good" {
		return nil, "", errors.New("the code is <bad>")
	}
	return &identity.Identity{Principal: "corp:ada"}, "", nil
}

func (*idp) End(context.Context, identity.Secret, string) string { return "" }

// TestLogin lets an identity provider say who the person is.
func TestLogin(t *testing.T) {
	at, now := &idp{}, time.Unix(1000, 0)
	pages := signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: &provider{}, Now: func() time.Time { return now }, Front: signin.Front{Base: "http://127.0.0.1:1", Login: at, Authenticate: func(*http.Request, string) (*identity.Identity, error) {
		return nil, errors.New("unknown")
	}}})
	first := visit(pages, http.MethodGet, "/connect/notes", nil, nil)
	cookies := first.Result().Cookies()
	form := url.Values{"form": {formField.FindStringSubmatch(first.Body.String())[1]}, "login": {"yes"}}
	if w := visit(pages, http.MethodPost, "/connect/notes", form, nil); w.Code != http.StatusForbidden || at.redirect != "" {
		t.Errorf("a form without the cookie: %d, began %q", w.Code, at.redirect)
	}
	begin := func() []*http.Cookie {
		t.Helper()
		w := visit(pages, http.MethodPost, "/connect/notes", form, cookies)
		if w.Code != http.StatusOK || w.Header().Get("Refresh") != "0;url=https://id.example.com/authorize" || at.redirect != "http://127.0.0.1:1/connect/callback" {
			t.Fatalf("%d %v %q", w.Code, w.Header(), at.redirect)
		}
		return append(w.Result().Cookies(), cookies...)
	}
	const answer = "/connect/callback?state=login-1&code="
	both := begin()
	for what, c := range map[string]struct {
		at      string
		cookies []*http.Cookie
	}{
		"another browser":      {answer + "good", nil},
		"a stolen login":       {answer + "good", both[:1]},
		"no login":             {answer + "good", cookies},
		"another state":        {"/connect/callback?state=login-2&code=good", both},
		"a server's issuer":    {"/connect/callback/0011?state=login-1&code=good", both},
		"a login made by hand": {answer + "good", append([]*http.Cookie{{Name: both[0].Name, Value: "e30"}}, cookies...)},
		"one that was changed": {answer + "good", append([]*http.Cookie{{Name: both[0].Name, Value: both[0].Value[:len(both[0].Value)-4] + "AAAA"}}, cookies...)},
	} {
		if w := visit(pages, http.MethodGet, c.at, nil, c.cookies); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", what, w.Code)
		}
	}
	if w := visit(pages, http.MethodGet, answer+"bad", nil, both); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "&lt;bad&gt;") || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("a bad code: %d %v %s", w.Code, w.Result().Cookies(), w.Body)
	}
	// Strangers who begin logins end none of others.
	both = begin()
	for range 1100 {
		visit(pages, http.MethodPost, "/connect/notes", form, cookies)
	}
	w := visit(pages, http.MethodGet, answer+"good", nil, both)
	own := w.Result().Cookies()
	own = own[len(own)-1:]
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/connect/notes" || own[0].Value == cookies[0].Value {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if w := visit(pages, http.MethodGet, "/connect/notes", nil, own); !strings.Contains(w.Body.String(), "You are corp:ada") {
		t.Errorf("%s", w.Body)
	}
	both = begin()
	pages.Forget()
	if w := visit(pages, http.MethodGet, answer+"good", nil, both); w.Code != http.StatusBadRequest {
		t.Errorf("after the callers have changed: %d", w.Code)
	}
	both = begin()
	now = now.Add(11 * time.Minute)
	if w := visit(pages, http.MethodGet, answer+"good", nil, both); w.Code != http.StatusBadRequest {
		t.Errorf("after its time: %d", w.Code)
	}
}

// slowIDP is an identity provider that agrees after a reload.
type slowIDP struct {
	idp
	reload func()
}

func (i *slowIDP) Finish(ctx context.Context, memo identity.Secret, query url.Values) (*identity.Identity, identity.Secret, error) {
	i.reload()
	return i.idp.Finish(ctx, memo, query)
}

// TestForgetDuringLookup: who may sign in changes while the provider, or the gateway, looks up who a
// person is. The answer is of the time before, so the person is not signed in.
func TestForgetDuringLookup(t *testing.T) {
	var pages *signin.Pages
	forget := func() { pages.Forget() }
	at := &slowIDP{reload: func() { forget() }}
	pages = signin.New(signin.Options{Docs: store.NewMemory(store.MemoryOptions{}), SignIns: &provider{}, Front: signin.Front{Base: "http://127.0.0.1:1", Login: at, Authenticate: func(*http.Request, string) (*identity.Identity, error) {
		forget()
		return &identity.Identity{Principal: "ada"}, nil
	}}})
	login := http.HandlerFunc(pages.ServeLogin)
	const answer = "/connect/callback?state=login-1&code=good"
	signIn := func() (person *http.Request, who string) {
		w := visit(pages, http.MethodGet, answer, nil, visit(login, http.MethodPost, "/login", nil, nil).Result().Cookies())
		person = httptest.NewRequest(http.MethodGet, "/", nil)
		for _, c := range w.Result().Cookies() {
			person.AddCookie(c)
		}
		return person, visit(login, http.MethodGet, "/login", nil, w.Result().Cookies()).Body.String()
	}
	paste := func() string {
		first := visit(pages, http.MethodGet, "/connect/notes", nil, nil)
		form := url.Values{"form": {formField.FindStringSubmatch(first.Body.String())[1]}, "token": {"x"}}
		w := visit(pages, http.MethodPost, "/connect/notes", form, first.Result().Cookies())
		return visit(pages, http.MethodGet, "/connect/notes", nil, w.Result().Cookies()).Body.String()
	}
	atServer := func() string {
		first := visit(pages, http.MethodGet, "/connect/notes", nil, nil)
		form := url.Values{"form": {formField.FindStringSubmatch(first.Body.String())[1]}, "login": {"yes"}}
		w := visit(pages, http.MethodPost, "/connect/notes", form, first.Result().Cookies())
		w = visit(pages, http.MethodGet, answer, nil, append(w.Result().Cookies(), first.Result().Cookies()...))
		own := w.Result().Cookies()
		return visit(pages, http.MethodGet, "/connect/notes", nil, own[len(own)-1:]).Body.String()
	}
	for _, stays := range []bool{false, true} {
		if stays {
			forget = func() {}
		}
		r, who := signIn()
		if id, err := pages.Person(r); (id != nil) != stays || err != nil || pages.SignedIn(r) != stays || strings.Contains(who, "corp:ada") != stays {
			t.Errorf("stays %t: a person is %v, %v, signed in %t: %s", stays, id, err, pages.SignedIn(r), who)
		}
		if page := paste(); strings.Contains(page, "You are ada") != stays {
			t.Errorf("stays %t, after a token: %s", stays, page)
		}
		if page := atServer(); strings.Contains(page, "You are corp:ada") != stays {
			t.Errorf("stays %t, after a login: %s", stays, page)
		}
	}
}
