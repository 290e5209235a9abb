package oauth

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/oauthtest"
)

// TestSecretStaysAtItsIssuer has a server name an issuer of its own choice: the configured secret of a
// client is not shown there.
func TestSecretStaysAtItsIssuer(t *testing.T) {
	for name, set := range map[string]func(*Server){
		"secret": func(s *Server) { s.ClientSecret = "hunter2" },
		"key":    func(s *Server) { s.PrivateKey = "hunter2" },
		"file":   func(s *Server) { s.AssertionFile = "/nowhere" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.idp.Secret = "hunter2"
			w.server.ClientID, w.server.Configured = "configured", true
			set(w.server)
			if _, _, err := w.client.Begin(t.Context(), w.server, "me", redirect); err == nil || !strings.Contains(err.Error(), "mcpServers.notes.oauth") || !strings.Contains(err.Error(), "oauth.issuer") {
				t.Errorf("a browser's sign-in: %v", err)
			}
			if err := w.client.Device(t.Context(), w.server, "me", func(Code) error { return context.Canceled }); err == nil || !strings.Contains(err.Error(), "oauth.issuer") {
				t.Errorf("a device's sign-in: %v", err)
			}
			w.server.Flow = FlowClientCredentials
			if err := w.client.Machine(t.Context(), w.server, Shared); err == nil || !strings.Contains(err.Error(), "oauth.issuer") {
				t.Errorf("weir's sign-in: %v", err)
			}
			if n := w.idp.Count("/token") + w.idp.Count("/device"); n != 0 {
				t.Errorf("the issuer was asked %d times", n)
			}
		})
	}
}

// TestSecretOfAnotherIssuer has a grant of one issuer, and a secret that is for another.
func TestSecretOfAnotherIssuer(t *testing.T) {
	w := newWorld(t)
	other := oauthtest.New()
	defer other.Close()
	w.server.ClientID, w.server.ClientSecret, w.server.Issuer = "configured", "hunter2", other.URL
	for _, method := range []string{methodBasic, methodPost} {
		if _, err := w.client.show(w.server, credentials{ID: "configured", Secret: "old", Method: method}, w.idp.URL, map[string][]string{}); err == nil {
			t.Errorf("the secret for one issuer is shown to another with %s", method)
		}
	}
}

// TestNoRefreshToken has a token without a refresh token end, and be refused: the person has to sign
// in again, and until then the server is not one with a sign-in.
func TestNoRefreshToken(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"ended":   func(w *world) { w.pass(2 * time.Hour); w.idp.Expire() },
		"revoked": func(w *world) { w.idp.Expire() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.idp.NoRefresh = true
			w.client = New(Options{Store: w.store, Now: w.now, Page: func(server string) string { return "http://weir/connect/" + server }})
			w.signIn("me")
			w.welcome("me")
			lose(w)
			for range 2 {
				got, err := w.get("me")
				if err == nil {
					t.Fatalf("the server answers %q", got)
				}
				if s := needsSignIn(t, err); s.Reason == "" || s.URL != "http://weir/connect/notes" {
					t.Errorf("err = %v", err)
				}
				if w.client.SignedIn(t.Context(), w.server, "me") {
					t.Error("a token that serves no more counts as a sign-in")
				}
			}
			w.signIn("me")
			w.welcome("me")
		})
	}
}
