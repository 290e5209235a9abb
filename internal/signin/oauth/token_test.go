package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
)

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
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(found.grant.Scopes)); !slices.Equal(got, []string{"a", "b", "c", "read"}) {
		t.Errorf("scopes %q: a further sign-in asks for those that it had, too", got)
	}
	w.idp.Scope = "d"
	_, err = w.get("me")
	if err == nil || errors.As(err, new(*SignInError)) {
		t.Errorf("a fourth step-up: %v", err)
	}
}

// TestWorkload signs weir in with the JWT of its platform as the grant, as the file has it each time. One
// that the issuer refuses is shown once, and no other grant is tried.
func TestWorkload(t *testing.T) {
	for _, secret := range []string{"", "hunter2"} {
		w := newWorld(t)
		file := filepath.Join(t.TempDir(), "token")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("a.b.c")
		w.idp.Secret, w.idp.Workload = secret, "a.b.c"
		w.server.Flow, w.server.ClientID, w.server.ClientSecret, w.server.Issuer, w.server.Configured, w.server.AssertionFile = FlowJWTBearer, "configured", identity.Secret(secret), w.idp.URL, true, file
		if _, _, err := w.client.Begin(t.Context(), w.server, "me", redirect); err == nil {
			t.Error("a person is sent to the issuer")
		}
		w.welcome(Shared)
		w.idp.Workload = "d.e.f"
		write("d.e.f") // the platform has renewed it
		w.pass(50 * time.Minute)
		w.welcome(Shared)
		if n := w.idp.Count("sign-in"); n != 2 {
			t.Errorf("%d tokens", n)
		}
		write("no JWT")
		w.idp.Expire()
		asked := w.idp.Count("/token")
		if _, err := w.get(Shared); err == nil || !strings.Contains(err.Error(), "mcpServers.notes.oauth.assertion_file") {
			t.Errorf("a file without a JWT: %v", err)
		}
		if n := w.idp.Count("/token") - asked; n != 0 {
			t.Errorf("%d requests without a JWT", n)
		}
	}
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

// TestChallengesOfPrincipals has a server ask one principal for more scopes: the sign-in of another
// asks for those of the configuration, and so does the sign-in of the first one some time later.
func TestChallengesOfPrincipals(t *testing.T) {
	w := newWorld(t)
	w.server.Scopes = []string{"base"}
	scopes := func(principal string) string {
		t.Helper()
		at, _, err := w.client.Begin(t.Context(), w.server, principal, redirect)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("scope")
	}
	w.signIn("ann")
	w.idp.Scope = "admin"
	_, err := w.get("ann")
	needsSignIn(t, err)
	if got := scopes("ann"); got != "admin base" {
		t.Errorf("the principal that was asked for more asks for %q", got)
	}
	for _, other := range []string{"bob", Shared, Anonymous} {
		if got := scopes(other); got != "base" {
			t.Errorf("the principal %q asks for %q", other, got)
		}
	}
	ch := Challenge{Status: http.StatusUnauthorized, Scopes: []string{"once"}}
	if _, err := w.client.Renew(t.Context(), w.server, "cy", Access{}, ch); needsSignIn(t, err) == nil {
		t.Error(err)
	}
	if got := scopes("cy"); got != "once" {
		t.Errorf("after a challenge: %q", got)
	}
	w.pass(askedTime + time.Second)
	if got := scopes("cy"); got != "base" {
		t.Errorf("%v after a challenge: %q", askedTime, got)
	}
}
