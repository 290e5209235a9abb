package credentials

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// roundTripper answers requests in this process.
type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestTextsOfCallers puts the texts of a principal into headers, for the server's origin alone, and asks
// for those that are missing or refused.
func TestTextsOfCallers(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("weir.yaml", []byte(`mcpServers: {jira: {url: "https://jira.example.com/mcp", credentials: user, headers: {Authorization: "Bearer ${user:jira}", X-Team: "${user:team}"}}}`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, inUse := vault.NewMemory(nil), ""
	s := New(store, func() *config.Config { return c }, func(text string) { inUse += text + " " }, nil)
	put := func(name, principal, text string) {
		t.Helper()
		if err := store.Swap(t.Context(), TextID(name, principal), vault.Record{}, vault.Record{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	put("jira", "ann", "token-of-ann")
	put("jira", "bob", "token-of-bob")
	put("team", "bob", "blue")
	put("jira", "", "shared")
	var seen http.Header
	status := http.StatusOK
	over := s.Over(func(string, *mcp.Session, http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) *http.Response {
			seen = r.Header
			w := httptest.NewRecorder()
			w.WriteHeader(status)
			return w.Result()
		})
	})
	send := func(principal, at string) error {
		t.Helper()
		seen = nil
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := over("jira", upstream.Owner{Principal: principal}, nil).RoundTrip(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			err = resp.Body.Close()
		}
		return err
	}
	missing := func(err error, texts ...string) {
		t.Helper()
		if !errors.As(err, new(*oauth.SignInError)) {
			t.Fatalf("got %v, want a missing credential", err)
		}
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q lacks %q", err, text)
			}
		}
	}
	const at = "https://jira.example.com/mcp"
	if err := send("bob", at); err != nil || seen.Get("Authorization") != "Bearer token-of-bob" || seen.Get("X-Team") != "blue" {
		t.Errorf("bob: %v, %v", seen, err)
	}
	if !strings.Contains(inUse, "token-of-bob") || strings.Contains(inUse, "shared") {
		t.Errorf("removed from logs: %q", inUse)
	}
	missing(send("ann", at), "weir credentials set team")
	for _, principal := range []string{oauth.Shared, oauth.Anonymous, "cy"} {
		missing(send(principal, at), "weir credentials set")
		if s.SignedIn("jira", principal) {
			t.Errorf("%q has credentials", principal)
		}
	}
	if seen != nil {
		t.Errorf("a request without a text was sent: %v", seen)
	}
	if err := send("bob", "https://other.example.com/mcp"); err != nil || seen.Get("Authorization")+seen.Get("X-Team") != "" {
		t.Errorf("another origin: %v, %v", seen, err)
	}
	if s.SignedIn("jira", "ann") || !s.SignedIn("jira", "bob") || s.Holder("jira", "") != "bob" {
		t.Errorf("ann %t, bob %t, holder %q", s.SignedIn("jira", "ann"), s.SignedIn("jira", "bob"), s.Holder("jira", ""))
	}
	if _, ok := SignInServer(c.Servers[0]); ok {
		t.Error("the server has a sign-in, too")
	}
	status = http.StatusUnauthorized
	missing(send("bob", at), "refuses", "weir credentials set")
	if s.SignedIn("jira", "bob") || s.Holder("jira", "") != "" {
		t.Error("a refused credential counts")
	}
}

// TestRefusedTexts refuses a text at one server, while a person replaces it: neither the new text nor
// the old one at another server counts as refused.
func TestRefusedTexts(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("weir.yaml", []byte(`mcpServers:
  jira: {url: "https://jira.example.com/mcp", credentials: user, headers: {Authorization: "Bearer ${user:corp}"}}
  wiki: {url: "https://wiki.example.com/mcp", credentials: user, headers: {Authorization: "Bearer ${user:corp}"}}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := vault.NewMemory(nil)
	s := New(store, func() *config.Config { return c }, func(string) {}, nil)
	id := TextID("corp", "ann")
	old := vault.Record{Data: []byte("token-of-ann")}
	if err := store.Swap(t.Context(), id, vault.Record{}, old); err != nil {
		t.Fatal(err)
	}
	during := func() {}
	over := s.Over(func(string, *mcp.Session, http.RoundTripper) http.RoundTripper {
		return roundTripper(func(*http.Request) *http.Response {
			during()
			w := httptest.NewRecorder()
			w.WriteHeader(http.StatusUnauthorized)
			return w.Result()
		})
	})
	refused := func() {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://jira.example.com/mcp", strings.NewReader("{}"))
		resp, err := over("jira", upstream.Owner{Principal: "ann"}, nil).RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.As(err, new(*oauth.SignInError)) {
			t.Fatalf("got %v, want a refused credential", err)
		}
	}
	refused()
	if s.SignedIn("jira", "ann") || !s.SignedIn("wiki", "ann") || s.Holder("wiki", "") != "ann" {
		t.Errorf("jira %t, wiki %t, holder at wiki %q", s.SignedIn("jira", "ann"), s.SignedIn("wiki", "ann"), s.Holder("wiki", ""))
	}
	during = func() {
		if err := store.Swap(t.Context(), id, old, vault.Record{Data: []byte("new-token-of-ann")}); err != nil {
			t.Error(err)
		}
		s.texts.known.Clear() // as if its time was over
	}
	refused()
	if !s.SignedIn("jira", "ann") {
		t.Error("a text that replaced a refused one counts as refused")
	}
}

// TestErrorsOfListing refuses the credential with which a server is listed: the error, which all callers
// read, does not tell whose it is. The error of a call names the caller in the command.
func TestErrorsOfListing(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("weir.yaml", []byte(`
auth: {tokens: [{name: alice, sha256: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881}]}
mcpServers: {jira: {url: "https://jira.example.com/mcp", credentials: user, headers: {Authorization: "Bearer ${user:jira}"}}}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := vault.NewMemory(nil)
	if err := store.Swap(t.Context(), TextID("jira", "corp:alice"), vault.Record{}, vault.Record{Data: []byte("token-of-alice")}); err != nil {
		t.Fatal(err)
	}
	s := New(store, func() *config.Config { return c }, func(string) {}, nil)
	m := upstream.New(upstream.Options{
		Transport: s.Over(func(string, *mcp.Session, http.RoundTripper) http.RoundTripper {
			return roundTripper(func(*http.Request) *http.Response {
				w := httptest.NewRecorder()
				w.WriteHeader(http.StatusUnauthorized)
				return w.Result()
			})
		}),
		Credentials: s,
	})
	t.Cleanup(func() {
		if err := errors.Join(m.Close(context.Background()), s.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	m.Apply(c.Servers)
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := m.Status()[0].LastError
	if !strings.Contains(said, "`weir credentials set jira`") || strings.Contains(said, "alice") {
		t.Errorf("the state of the server says %q", said)
	}
	session := mcp.NewSession("", "corp:alice")
	defer session.Close()
	if _, err = whoami(t.Context(), m, session, "jira"); err == nil || !strings.Contains(err.Error(), "--as corp:alice") {
		t.Errorf("the call of the principal says %v", err)
	}
}
