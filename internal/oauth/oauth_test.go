package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/leak"
	"github.com/weir-mcp/weir/internal/oauth/oauthtest"
	"github.com/weir-mcp/weir/internal/vault"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("OAUTH_TEST_REFRESH_IN"); dir != "" {
		refreshAll(dir, os.Getenv("OAUTH_TEST_SERVER"))
		return
	}
	leak.Main(m)
}

const redirect = "http://127.0.0.1:33419/callback"

// a world is a client and a server.
type world struct {
	t      *testing.T
	idp    *oauthtest.Server
	server *Server
	client *Client
	store  vault.Store
	mu     sync.Mutex
	time   time.Time
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = w.time.Add(d)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, idp: oauthtest.New(), time: time.Now()}
	t.Cleanup(func() {
		w.idp.Close()
		if p := w.idp.Problems(); len(p) > 0 {
			t.Errorf("the authorization server complains: %q", p)
		}
	})
	w.store = vault.NewMemory(nil)
	w.server = &Server{Name: "notes", URL: w.idp.URL + "/mcp", Flow: FlowCode}
	w.client = w.another()
	return w
}

// another returns a client of another process.
func (w *world) another() *Client { return New(Options{Store: w.store, Now: w.now}) }

func (w *world) signIn(principal string) {
	w.t.Helper()
	if err := w.trySignIn(principal); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) trySignIn(principal string) error {
	at, _, err := w.client.Begin(w.t.Context(), w.server, principal, redirect)
	if err != nil {
		return err
	}
	back, err := w.idp.Browse(at)
	if err != nil {
		return err
	}
	_, err = w.client.Finish(w.t.Context(), principal, back.Query())
	return err
}

// get asks the server through the transport.
func (w *world) get(principal string) (string, error) {
	return getWith(w.t.Context(), w.client, w.server, principal)
}

func getWith(ctx context.Context, c *Client, s *Server, principal string) (string, error) {
	base := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	resp, err := c.Transport(s, principal, base).RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(body))), err
}

func (w *world) welcome(principal string) {
	w.t.Helper()
	if got, err := w.get(principal); got != "200 welcome" || err != nil {
		w.t.Fatalf("the server answers %q, %v", got, err)
	}
}

func needsSignIn(t *testing.T, err error) *SignInError {
	t.Helper()
	var s *SignInError
	if !errors.As(err, &s) {
		t.Fatalf("err = %v, want a sign-in", err)
	}
	return s
}

// TestSignIn walks from a refusal to a call, and to a sign-out.
func TestSignIn(t *testing.T) {
	w := newWorld(t)
	_, err := w.get("me")
	if s := needsSignIn(t, err); s.Server != "notes" || !strings.Contains(s.Error(), "weir login notes") {
		t.Errorf("err = %v", err)
	}
	w.signIn("me")
	w.welcome("me")
	// Another principal has nothing of it.
	if _, err := w.get("you"); err == nil {
		t.Error("the token of one principal served another")
	}
	entries, err := w.store.List(t.Context())
	if err != nil || len(entries) != 2 { // the registration and the token
		t.Fatalf("the vault has %v, %v", entries, err)
	}
	if err := w.client.SignOut(t.Context(), w.server.id("me")); err != nil {
		t.Fatal(err)
	}
	if w.idp.Count("revoked") != 1 {
		t.Error("the token was not revoked")
	}
	_, err = w.get("me")
	needsSignIn(t, err)
	if err := w.client.SignOut(t.Context(), w.server.id("me")); !errors.Is(err, vault.ErrMissing) {
		t.Errorf("a second sign-out: %v", err)
	}
	w.signIn("me")
	if n := w.idp.Count("/register"); n != 1 {
		t.Errorf("%d registrations; the first one is kept by its issuer", n)
	}
}

// TestRefresh has tokens end, with rotation and without.
func TestRefresh(t *testing.T) {
	for _, rotate := range []bool{true, false} {
		t.Run(fmt.Sprint(rotate), func(t *testing.T) {
			w := newWorld(t)
			w.idp.NoRotation = !rotate // a refresh token that is not in the answer is kept
			w.signIn("me")
			for i := range 3 {
				w.pass(50 * time.Minute) // 83 % of an hour
				w.welcome("me")
				if n := w.idp.Count("refreshed"); n != i+1 {
					t.Fatalf("%d refreshes after %d lives", n, i+1)
				}
				w.pass(time.Minute)
				w.welcome("me")
			}
			w.idp.Expire() // the server does not take the token before its end
			w.welcome("me")
			if n := w.idp.Count("refreshed"); n != 4 {
				t.Errorf("%d refreshes after a 401", n)
			}
		})
	}
}

// TestRefreshFails tells an issuer that is down from one that has ended the sign-in.
func TestRefreshFails(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	w.pass(50 * time.Minute)
	w.idp.SetDown(true)
	w.welcome("me") // the token still serves
	asked := w.idp.Count("/token")
	for range 20 {
		w.welcome("me")
	}
	if n := w.idp.Count("/token"); n != asked {
		t.Errorf("%d requests within the wait", n-asked)
	}
	w.pass(15 * time.Minute) // it has ended
	tries := 0
	for range 3600 {
		before := w.idp.Count("/token")
		if _, err := w.client.Token(t.Context(), w.server, "me"); err == nil || errors.As(err, new(*SignInError)) {
			t.Fatalf("an issuer that is down: %v", err)
		}
		tries += w.idp.Count("/token") - before
		w.pass(time.Second)
	}
	if tries < 10 || tries > 30 {
		t.Errorf("%d tries in an hour", tries)
	}
	w.idp.SetDown(false)
	w.pass(6 * time.Minute)
	w.welcome("me")
	w.pass(50 * time.Minute)
	w.idp.FailRefresh("invalid_grant")
	_, err := w.get("me")
	if s := needsSignIn(t, err); s.Reason == "" {
		t.Error("a sign-in that ended has no reason")
	}
	asked = w.idp.Count("/token")
	_, err = w.get("me")
	needsSignIn(t, err)
	if n := w.idp.Count("/token"); n != asked {
		t.Error("a refresh token that was refused is tried again")
	}
}

// TestOneRefresh has many callers at the end of a token.
func TestOneRefresh(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	w.pass(50 * time.Minute)
	other := w.another()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			c := []*Client{w.client, other}[i%2]
			if got, err := getWith(t.Context(), c, w.server, "me"); got != "200 welcome" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := w.idp.Count("refreshed"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

// TestStepUp asks for more scopes, until it has asked three times.
func TestStepUp(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	for i, scope := range []string{"a", "b", "c"} {
		w.idp.Scope = scope
		for range 2 { // the same demand counts once
			_, err := w.get("me")
			if s := needsSignIn(t, err); !strings.Contains(s.Reason, scope) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		w.signIn("me")
		w.welcome("me")
	}
	found, err := w.client.load(t.Context(), w.server.id("me"))
	if err != nil || !slices.Equal(found.grant.Scopes, []string{"c", "b", "a", "read"}) && len(found.grant.Scopes) != 4 {
		t.Errorf("scopes %q", found.grant.Scopes)
	}
	w.idp.Scope = "d"
	_, err = w.get("me")
	if err == nil || errors.As(err, new(*SignInError)) {
		t.Errorf("a fourth step-up: %v", err)
	}
}

// TestCallback plays what must not end a sign-in.
func TestCallback(t *testing.T) {
	w := newWorld(t)
	begin := func() url.Values {
		t.Helper()
		at, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
		if err != nil {
			t.Fatal(err)
		}
		back, err := w.idp.Browse(at)
		if err != nil {
			t.Fatal(err)
		}
		return back.Query()
	}
	finish := func(principal string, q url.Values) error {
		_, err := w.client.Finish(t.Context(), principal, q)
		return err
	}
	if err := finish("you", begin()); !errors.Is(err, errState) {
		t.Errorf("the sign-in of another principal: %v", err)
	}
	q := begin()
	w.pass(pendingTime + time.Second)
	if err := finish("me", q); !errors.Is(err, errState) {
		t.Errorf("after 10 minutes: %v", err)
	}
	q = begin()
	q.Set("iss", w.idp.URL+"/")
	if err := finish("me", q); err == nil || !strings.Contains(err.Error(), "issuer") {
		t.Errorf("another issuer: %v", err)
	}
	q = begin()
	q.Del("iss")
	if err := finish("me", q); err == nil || !strings.Contains(err.Error(), "issuer") {
		t.Errorf("without the issuer that is advertised: %v", err)
	}
	if err := finish("me", url.Values{"state": {""}, "code": {"x"}}); !errors.Is(err, errState) {
		t.Errorf("without a state: %v", err)
	}
	q = begin()
	if err := finish("me", q); err != nil {
		t.Fatal(err)
	}
	if err := finish("me", q); !errors.Is(err, errState) {
		t.Errorf("a second time: %v", err)
	}
	// An issuer that is named although that is not advertised, and matches.
	w.idp.Metadata = map[string]any{"authorization_response_iss_parameter_supported": nil}
	if err := finish("me", begin()); err != nil {
		t.Errorf("an unadvertised issuer that matches: %v", err)
	}
	q = begin()
	q.Del("code")
	q.Set("error", "access_denied")
	q.Set("error_description", "the person\nsaid no")
	if err := finish("me", q); err == nil || !strings.Contains(err.Error(), "access_denied: the person said no") {
		t.Errorf("err = %v", err)
	}
}

// TestClients chooses who weir is: configured, by its document, registered, or an error.
func TestClients(t *testing.T) {
	clientID := func(w *world) string {
		t.Helper()
		at, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
		if err != nil {
			return err.Error()
		}
		u, _ := url.Parse(at)
		return u.Query().Get("client_id")
	}
	byDocument := map[string]any{"client_id_metadata_document_supported": true}
	t.Run("configured", func(t *testing.T) {
		w := newWorld(t)
		w.idp.Metadata, w.idp.Secret = byDocument, "hunter2"
		w.server.ClientID, w.server.ClientSecret, w.server.Issuer = "configured", "hunter2", w.idp.URL
		if got := clientID(w); got != "configured" {
			t.Errorf("client %q", got)
		}
		w.signIn("me")
		for _, methods := range [][]string{{"client_secret_post"}, {"client_secret_basic"}} {
			w.idp.Metadata = map[string]any{"token_endpoint_auth_methods_supported": methods}
			w.signIn("me")
		}
	})
	t.Run("document", func(t *testing.T) {
		w := newWorld(t)
		w.idp.Metadata = byDocument
		w.client = New(Options{Store: w.store, PublicURL: func() string { return "https://weir.example/" }})
		if got := clientID(w); got != "https://weir.example/oauth/client.json" {
			t.Errorf("client %q", got)
		}
		w.server.NoDocument = true
		if got := clientID(w); strings.Contains(got, "weir.example") {
			t.Errorf("client %q although the document cannot be reached", got)
		}
		if doc := string(Document("https://weir.example/")); !strings.Contains(doc, `"client_id":"https://weir.example/oauth/client.json"`) || !strings.Contains(doc, "https://weir.example/connect/callback") {
			t.Errorf("document %s", doc)
		}
	})
	t.Run("none", func(t *testing.T) {
		w := newWorld(t)
		w.idp.Metadata = map[string]any{"registration_endpoint": nil}
		if got := clientID(w); !strings.Contains(got, "takes no registrations") || !strings.Contains(got, "mcpServers.notes.oauth") {
			t.Errorf("err = %s", got)
		}
	})
	t.Run("unknown to its issuer", func(t *testing.T) {
		w := newWorld(t)
		id := vault.ID{Kind: vault.Client, Issuer: w.idp.URL}
		if err := w.store.Swap(t.Context(), id, vault.Record{}, vault.Record{Issuer: w.idp.URL, Data: []byte(`{"client_id":"x","redirect_uris":["` + redirect + `"]}`)}); err != nil {
			t.Fatal(err)
		}
		w.client.forgetRegistration(t.Context(), w.idp.URL, "another")
		if got := clientID(w); got != "x" {
			t.Errorf("client %q, want the kept one", got)
		}
		w.client.forgetRegistration(t.Context(), w.idp.URL, "x")
		if got := clientID(w); got == "x" {
			t.Error("the registration is kept although its issuer does not know it")
		}
	})
}

// TestMachine has weir sign in by itself, with a secret, a key and a file.
func TestMachine(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a.b.c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func(*Server){
		"secret": func(s *Server) { s.ClientSecret = "hunter2" },
		"post":   func(s *Server) { s.ClientSecret, s.AuthMethod = "hunter2", methodPost },
		"key": func(s *Server) {
			s.PrivateKey = identity.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		},
		"file": func(s *Server) { s.AssertionFile = file },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.idp.Secret = "hunter2"
			w.server.Flow, w.server.ClientID, w.server.Issuer, w.server.Configured = FlowClientCredentials, "configured", w.idp.URL, true
			set(w.server)
			w.welcome(Shared)
			w.pass(50 * time.Minute)
			w.welcome(Shared)
			w.idp.Expire()
			w.welcome(Shared)
			if n := w.idp.Count("sign-in"); n != 3 {
				t.Errorf("%d tokens", n)
			}
		})
	}
}

// TestDevice has a person agree, and refuse, at another device.
func TestDevice(t *testing.T) {
	w := newWorld(t)
	show := func(agree bool) func(Code) error {
		return func(c Code) error {
			if c.User != "WDJB-MJHT" || !strings.HasSuffix(c.URL, "/enter") || c.Life != 10*time.Minute {
				t.Errorf("shown %+v", c)
			}
			w.idp.Agree(agree)
			return nil
		}
	}
	if err := w.client.Device(t.Context(), w.server, "me", show(false)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("err = %v", err)
	}
	if err := w.client.Device(t.Context(), w.server, "me", show(true)); err != nil {
		t.Fatal(err)
	}
	w.welcome("me")
	w.pass(50 * time.Minute)
	w.welcome("me")
}

// TestParams sends further parameters, and no resource where the issuer knows none.
func TestParams(t *testing.T) {
	w := newWorld(t)
	w.idp.NoResource = true
	w.server.NoResource, w.server.Params = true, map[string]string{"audience": "api://x", "response_type": "token"}
	at, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(at)
	if q := u.Query(); q.Get("audience") != "api://x" || q.Get("response_type") != "code" {
		t.Errorf("query %v", q)
	}
	w.signIn("me")
	w.pass(50 * time.Minute)
	w.welcome("me")
}

// TestTransportLeavesOthersAlone asks servers that do not want OAuth.
func TestTransportLeavesOthersAlone(t *testing.T) {
	w := newWorld(t)
	w.idp.Quiet, w.idp.Resource = true, map[string]any{"authorization_servers": []string{}}
	for range 3 {
		if got, err := w.get("me"); got != "401 no" || err != nil {
			t.Errorf("a server without metadata: %q, %v", got, err)
		}
	}
	if n := w.idp.Count("/.well-known/oauth-protected-resource/mcp"); n != 1 {
		t.Errorf("it was asked for metadata %d times", n)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL, nil)
	req.Header.Set("Authorization", "Bearer configured")
	w.idp.Quiet = false
	resp, err := w.client.Transport(w.server, "me", &http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("a configured header: %v", err)
	}
	resp.Body.Close()
}

// TestChangedURL keeps a token from an address that it was not meant for.
func TestChangedURL(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	moved := *w.server
	moved.URL = "https://elsewhere.example/mcp"
	if _, err := w.client.Token(t.Context(), &moved, "me"); !errors.As(err, new(*SignInError)) {
		t.Errorf("err = %v", err)
	}
}

// TestSecretsStayInside prints what the package hands out and keeps.
func TestSecretsStayInside(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	token, err := w.client.Token(t.Context(), w.server, "me")
	if err != nil {
		t.Fatal(err)
	}
	found, _ := w.client.load(t.Context(), w.server.id("me"))
	text := fmt.Sprintf("%v %+v %#v %v %+v %#v", token, found, found.grant, found.grant, *found, found.record)
	for _, secret := range []string{found.grant.Access, found.grant.Refresh} {
		if strings.Contains(text, secret) {
			t.Errorf("a token is printed: %s", text)
		}
	}
	if err := failureOf(400, []byte(`{"error":"x","error_description":"no hunter2 here"}`), []string{"", "hunter2"}); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
}

func threeKeys(bool) (*vault.Keys, error) {
	return vault.NewKeys([]string{"a key of the three of them"})
}

// refreshAll is the body of a child process: it uses a token until it has been refreshed often
// enough.
func refreshAll(dir, server string) {
	c := New(Options{Store: vault.NewFile(dir, threeKeys)})
	s := &Server{Name: "notes", URL: server, Flow: FlowCode}
	end := time.Now().Add(5 * time.Minute)
	for time.Now().Before(end) {
		if _, err := c.Token(context.Background(), s, Shared); err != nil {
			fail(err)
		}
		c.cached.Take(s.id(Shared))
		if _, err := os.Stat(filepath.Join(dir, "enough")); err == nil {
			return
		}
	}
	fail(errors.New("it took too long"))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestThreeProcesses share one store and a token that rotates: none of them ever has to sign in again.
func TestThreeProcesses(t *testing.T) {
	lives := 1000
	if testing.Short() {
		lives = 100
	}
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "creds")
	w.store, w.idp.Life = vault.NewFile(dir, threeKeys), 5*time.Millisecond
	w.client = w.another()
	w.signIn(Shared)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "OAUTH_TEST_REFRESH_IN="+dir, "OAUTH_TEST_SERVER="+w.server.URL)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for w.idp.Count("refreshed") < lives && !t.Failed() {
		<-ticker.C
	}
	if err := os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := w.idp.Count("sign-in"); n != 1 {
		t.Errorf("%d sign-ins", n)
	}
	t.Logf("%d refreshes, 1 sign-in", w.idp.Count("refreshed"))
}
