package oauth

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// TestSignOutWaits signs out while a process refreshes the token: the newest token is revoked, and no
// token comes back.
func TestSignOutWaits(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	id := w.server.id("me")
	unlock, err := w.store.Lock(t.Context(), id) // another process begins to refresh
	if err != nil {
		t.Fatal(err)
	}
	leaving, leave := context.WithCancel(t.Context())
	leave()
	if err := w.client.SignOut(leaving, id); !errors.Is(err, context.Canceled) {
		t.Errorf("a sign-out that may not wait: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.another().SignOut(t.Context(), id) }()
	select {
	case err := <-ended:
		t.Fatalf("signed out during a refresh: %v", err)
	default:
	}
	other := w.another()
	found, err := other.load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	w.pass(50 * time.Minute)
	if _, err := other.refresh(t.Context(), w.server, id, found); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if w.idp.Count("revoked") != 1 || w.idp.Live() != 0 {
		t.Errorf("%d revocations, and %d sign-ins still serve", w.idp.Count("revoked"), w.idp.Live())
	}
	if _, err := w.store.Get(t.Context(), id); !errors.Is(err, vault.ErrMissing) {
		t.Errorf("the store has the credential: %v", err)
	}
}

// TestSignOutTells signs out at an issuer that does not revoke, and of a record that cannot be read: the
// record is removed, and the error says that the tokens may still serve.
func TestSignOutTells(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	w.idp.SetDown(true)
	err := w.client.SignOut(t.Context(), w.server.id("me"))
	if !errors.Is(err, ErrNotRevoked) || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), `"notes"`) {
		t.Errorf("an issuer that is down: %v", err)
	}
	w.idp.SetDown(false)
	w.signIn("me")
	closed := &closedStore{Store: w.store}
	w.client = New(Options{Store: closed, Now: w.now})
	if err := w.client.SignOut(t.Context(), w.server.id("me")); !errors.Is(err, ErrNotRevoked) || !strings.Contains(err.Error(), "no key") {
		t.Errorf("a record that no key opens: %v", err)
	}
	if _, err := w.store.Get(t.Context(), w.server.id("me")); !errors.Is(err, vault.ErrMissing) {
		t.Errorf("the store has the credential: %v", err)
	}
	if err := w.client.SignOut(t.Context(), w.server.id("me")); !errors.Is(err, vault.ErrMissing) {
		t.Errorf("a second sign-out: %v", err)
	}
}

// TestSignOutWithKey revokes as a client that proves itself with a key, which stands in the configuration
// alone. A key of another client, or for another issuer, is not used.
func TestSignOutWithKey(t *testing.T) {
	w := newWorld(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	w.idp.Secret = "unused"
	w.server.ClientID, w.server.AuthMethod, w.server.Issuer = "configured", methodKey, w.idp.URL
	w.server.PrivateKey = identity.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	now := *w.server
	w.client = New(Options{Store: w.store, Now: w.now, Configured: func(name string) (*Server, bool) { return &now, name == "notes" }})
	w.signIn("me")
	if err := w.client.SignOut(t.Context(), w.server.id("me")); err != nil || w.idp.Count("revoked with a key") != 1 || w.idp.Live() != 0 {
		t.Errorf("%v, %d revocations with a key, %d sign-ins still serve", err, w.idp.Count("revoked with a key"), w.idp.Live())
	}
	for _, change := range []func(){
		func() { now.ClientID = "another" }, func() { now.Issuer = "https://login.example.com" }, func() { now.URL += "/other" },
	} {
		now = *w.server
		w.signIn("me")
		change()
		if err := w.client.SignOut(t.Context(), w.server.id("me")); !errors.Is(err, ErrNotRevoked) || w.idp.Count("revoked with a key") != 1 {
			t.Errorf("under another configuration: %v, %d revocations with a key", err, w.idp.Count("revoked with a key"))
		}
	}
}

// closedStore is a store that was sealed with another key. What it is told to store opens.
type closedStore struct {
	vault.Store
	opens map[vault.ID]bool
}

func (s *closedStore) Get(ctx context.Context, id vault.ID) (vault.Record, error) {
	r, err := s.Store.Get(ctx, id)
	if err == nil && !s.opens[id] {
		return vault.Record{}, vault.ErrClosed
	}
	return r, err
}

func (s *closedStore) Swap(ctx context.Context, id vault.ID, old, next vault.Record) error {
	if _, err := s.Get(ctx, id); errors.Is(err, vault.ErrClosed) {
		return err
	}
	err := s.Store.Swap(ctx, id, old, next)
	if err == nil {
		if s.opens == nil {
			s.opens = map[vault.ID]bool{}
		}
		s.opens[id] = true
	}
	return err
}

// TestNoKeyOpens has another key than the one that the sign-ins were sealed with: the error names the
// server and the way out, and a sign-in replaces what no key opens.
func TestNoKeyOpens(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	w.client = New(Options{Store: &closedStore{Store: w.store}, Now: w.now, Page: func(server string) string { return "http://weir/connect/" + server }})
	for range 2 {
		_, err := w.get("me")
		if s := needsSignIn(t, err); s.Server != "notes" || s.URL != "http://weir/connect/notes" || !strings.Contains(s.Error(), "credentials.keys") || !strings.Contains(s.Error(), "weir login notes") {
			t.Errorf("err = %v", err)
		}
		if _, err := w.client.Token(t.Context(), w.server, "me"); needsSignIn(t, err).Server != "notes" {
			t.Errorf("err = %v", err)
		}
		if w.client.SignedIn(t.Context(), w.server, "me") {
			t.Error("a sign-in that no key opens counts")
		}
		w.pass(cachedTime)
	}
	w.signIn("me") // with a new registration: no key opens the old one
	w.welcome("me")
	if n := w.idp.Count("/register"); n != 2 {
		t.Errorf("%d registrations", n)
	}
}

// TestDamagedGrant has a record that opens and is not a grant.
func TestDamagedGrant(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	id := w.server.id("me")
	old, err := w.store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Swap(t.Context(), id, old, vault.Record{Issuer: old.Issuer, Data: []byte("nonsense")}); err != nil {
		t.Fatal(err)
	}
	w.pass(cachedTime)
	_, err = w.get("me")
	if s := needsSignIn(t, err); !strings.Contains(s.Reason, "damaged") {
		t.Errorf("err = %v", err)
	}
	w.signIn("me")
	w.welcome("me")
}

// TestMachineWithoutKey has weir sign in by itself, although no key opens its earlier token.
func TestMachineWithoutKey(t *testing.T) {
	w := newWorld(t)
	w.idp.Secret = "hunter2"
	w.server.Flow, w.server.ClientID, w.server.ClientSecret, w.server.Issuer, w.server.Configured = FlowClientCredentials, "configured", "hunter2", w.idp.URL, true
	w.welcome(Shared)
	w.client = New(Options{Store: &closedStore{Store: w.store}, Now: w.now})
	for range 3 {
		w.welcome(Shared)
		w.pass(cachedTime)
	}
	if n := w.idp.Count("sign-in"); n != 2 {
		t.Errorf("%d sign-ins", n)
	}
}
