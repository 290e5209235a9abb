package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/oauthtest"
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
	_, err = w.client.Finish(w.t.Context(), principal, tailAt(back), back.Query())
	return err
}

// tailAt returns the path below redirect to which a browser came back.
func tailAt(back *url.URL) string { return strings.TrimPrefix(back.Path, "/callback") }

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
