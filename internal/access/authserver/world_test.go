package authserver_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/authserver"
	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	authorizePath = "/oauth/authorize"
	signInPath    = "/oauth/signin"
	consentPath   = "/oauth/consent"
	tokenPath     = "/oauth/token"
	pushPath      = "/oauth/par"
	registerPath  = "/oauth/register"
	revokePath    = "/oauth/revoke"
	keysPath      = "/oauth/jwks"
	logoutPath    = "/oauth/logout"
	base          = "https://weir.example"
	appBack       = "https://app.example/back"
	loopBack      = "http://127.0.0.1:4711/back"
	secret        = "0123456789abcdef0123456789abcdef"
)

// annsHash is the hash of the password "right" at the least cost.
var annsHash = sync.OnceValue(func() string {
	salt, b64 := []byte("0123456789abcdef"), base64.RawStdEncoding
	return "$argon2id$v=19$m=8192,t=1,p=1$" + b64.EncodeToString(salt) + "$" + b64.EncodeToString(argon2.IDKey([]byte("right"), salt, 1, 8192, 1, 32))
})

// world is a Server with its store, and a browser.
type world struct {
	t    *testing.T
	docs store.Docs
	key  *seal.Key
	p    authserver.Policy
	o    authserver.Options
	s    *authserver.Server
	jar  map[string]string

	mu   sync.Mutex // guards below
	told []string
}

// newWorld returns a world whose people have accounts. change changes the policy before it is applied.
func newWorld(t *testing.T, change func(p *authserver.Policy)) *world {
	t.Helper()
	key, err := seal.NewKey("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, docs: store.NewMemory(store.MemoryOptions{}), key: key, jar: map[string]string{}}
	w.p = authserver.Policy{
		Issuer: base, Registration: true, Documents: true, Scopes: []string{"mcp", "admin"}, AccessTime: 10 * time.Minute, RefreshTime: 24 * time.Hour,
		Accounts: []authserver.Account{{Name: "ann", Password: annsHash(), Groups: []string{"sre"}}},
		Clients: []authserver.Client{
			{ID: "app", Name: "App", Redirects: []string{appBack, loopBack, "http://localhost/other"}, Logouts: []string{"https://app.example/out"}},
			{ID: "other", Name: "Other", Redirects: []string{appBack}},
			{ID: "robot", Secret: secret, Groups: []string{"bots"}, Scopes: []string{"mcp"}},
		},
		Resource: func(address string) (string, bool) { return access.Resource(base, address) },
	}
	if change != nil {
		change(&w.p)
	}
	w.o = authserver.Options{Docs: w.docs, Key: key, Tell: func(ctx context.Context, d authserver.Deed, detail string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, string(d)+" "+identity.From(ctx).Principal)
	}}
	w.s = w.node()
	return w
}

// node returns another Server over the same store.
func (w *world) node() *authserver.Server {
	s := authserver.New(w.o)
	p := w.p
	s.Apply(&p)
	w.t.Cleanup(s.Close)
	return s
}

// ask sends a request; a form is posted. more are headers.
func (w *world) ask(method, address string, form url.Values, more ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, address, strings.NewReader(form.Encode()))
	r.RemoteAddr = "192.0.2.7:1234"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	for name, value := range w.jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	rec := httptest.NewRecorder()
	if strings.HasPrefix(address, base+"/callback") {
		if !w.s.Callback(rec, r) {
			rec.Code = http.StatusTeapot
		}
	} else {
		w.s.ServeHTTP(rec, r)
	}
	for _, c := range rec.Result().Cookies() {
		if w.jar[c.Name] = c.Value; c.MaxAge < 0 {
			delete(w.jar, c.Name)
		}
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.Path != "/" || c.SameSite != http.SameSiteLaxMode {
			w.t.Errorf("the cookie %v", c)
		}
	}
	return rec
}

// request returns a good authorization request of a client.
func request(client, redirect, verifier string, change ...string) url.Values {
	q := url.Values{
		"client_id": {client}, "redirect_uri": {redirect}, "response_type": {"code"}, "code_challenge": {issuers.Challenge(verifier)},
		"code_challenge_method": {"S256"}, "resource": {base + "/mcp"}, "state": {"st"}, "scope": {"mcp"},
	}
	for i := 0; i+1 < len(change); i += 2 {
		if q[change[i]] = []string{change[i+1]}; change[i+1] == "" {
			delete(q, change[i])
		}
	}
	return q
}

func newVerifier() string { return rand.Text() + rand.Text() }

var hidden = regexp.MustCompile(`name="request" value="([^"]+)"`)

func (w *world) hidden(rec *httptest.ResponseRecorder) string {
	w.t.Helper()
	m := hidden.FindStringSubmatch(rec.Body.String())
	if m == nil {
		w.t.Fatalf("no form: %d %s", rec.Code, rec.Body)
	}
	return m[1]
}

// passwordPage opens the page that asks for ann's password and returns the hidden text of its form.
func (w *world) passwordPage(q url.Values) string {
	w.t.Helper()
	return w.hidden(w.ask("GET", base+authorizePath+"?"+q.Encode(), nil))
}

func (w *world) enter(page, password string) *httptest.ResponseRecorder {
	return w.ask("POST", base+signInPath, url.Values{"request": {page}, "name": {"ann"}, "password": {password}})
}

// browse signs ann in and agrees. It returns where the browser goes back to.
func (w *world) browse(q url.Values) *url.URL {
	w.t.Helper()
	rec := w.enter(w.passwordPage(q), "right")
	if rec.Code == http.StatusOK {
		rec = w.ask("POST", base+consentPath, url.Values{"request": {w.hidden(rec)}, "decision": {"allow"}})
	}
	back, err := rec.Result().Location()
	if err != nil {
		w.t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return back
}

// answer is the answer of the token endpoint.
type answer struct {
	status int
	json   map[string]any
}

func (a answer) text(name string) string { s, _ := a.json[name].(string); return s }

func (w *world) post(path string, form url.Values, more ...string) answer {
	w.t.Helper()
	rec := w.ask("POST", base+path, form, more...)
	a := answer{status: rec.Code}
	if err := json.Unmarshal(rec.Body.Bytes(), &a.json); err != nil {
		w.t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
	}
	if rec.Header().Get("Cache-Control") != "no-store" {
		w.t.Errorf("%s may be cached", path)
	}
	return a
}

// exchange exchanges a code. change replaces members of the form.
func (w *world) exchange(client, redirect, verifier string, back *url.URL, change ...string) answer {
	w.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {client}, "code": {back.Query().Get("code")}, "redirect_uri": {redirect}, "code_verifier": {verifier}}
	for i := 0; i+1 < len(change); i += 2 {
		if form[change[i]] = []string{change[i+1]}; change[i+1] == "" {
			delete(form, change[i])
		}
	}
	return w.post(tokenPath, form)
}

func (w *world) refresh(client, token string, change ...string) answer {
	w.t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {token}}
	for i := 0; i+1 < len(change); i += 2 {
		form[change[i]] = []string{change[i+1]}
	}
	return w.post(tokenPath, form)
}

// signedIn returns the tokens of a sign-in of ann with a client.
func (w *world) signedIn(scope string) answer {
	w.t.Helper()
	verifier := newVerifier()
	a := w.exchange("app", appBack, verifier, w.browse(request("app", appBack, verifier, "scope", scope)))
	if a.status != http.StatusOK {
		w.t.Fatal(a)
	}
	return a
}

// opens reports whether an access token opens a path of the gateway whose callers the Server knows.
func (w *world) opens(token, path string) error {
	w.t.Helper()
	members := map[string][]string{"client:robot": {"bots"}}
	for _, a := range w.p.Accounts {
		members["account:"+a.Name] = a.Groups
	}
	a := access.New(access.Options{})
	defer a.Close()
	a.Apply(access.Policy{PublicURL: base, Own: &access.Own{Server: w.s, Scopes: w.p.Scopes, Prefixes: []string{"account", "client"}, Members: members}})
	_, err := a.Authenticate(httptest.NewRequest("POST", base+path, nil), token)
	return err
}
