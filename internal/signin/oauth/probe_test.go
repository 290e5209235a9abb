package oauth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

// TestProbe asks servers that greet without a token, or do not know the greeting: the challenge is
// the one of the first request that they refuse.
func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		hello func(w http.ResponseWriter)
		check func(t *testing.T, r *http.Request)
	}{
		"greets everyone": {
			func(w http.ResponseWriter) { w.Header().Set("Mcp-Session-Id", "s1") },
			func(t *testing.T, r *http.Request) {
				if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != mcp.LatestLegacy {
					t.Errorf("the list has the headers %v", r.Header)
				}
			},
		},
		"knows 2026-07-28 alone": {
			func(w http.ResponseWriter) { http.Error(w, "no MCP-Protocol-Version", http.StatusBadRequest) },
			func(t *testing.T, r *http.Request) {
				if r.Header.Get("Mcp-Protocol-Version") != mcp.V20260728 || r.Header.Get("Mcp-Method") != "tools/list" {
					t.Errorf("the list has the headers %v", r.Header)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var ask struct{ Method string }
				if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
					t.Error(err)
				}
				if ask.Method == "initialize" {
					c.hello(w)
					return
				}
				c.check(t, r)
				w.Header().Set("WWW-Authenticate", `Bearer scope="basic"`)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			defer server.Close()
			r := New(Options{}).web.reach(server.URL)
			if ch, err := r.ask(t.Context(), server.URL); err != nil || ch.Status != http.StatusUnauthorized || !slices.Equal(ch.Scopes, []string{"basic"}) {
				t.Errorf("challenge %+v, %v", ch, err)
			}
		})
	}
}

// TestProbeOfAnOpenServer finds no challenge where there is none.
func TestProbeOfAnOpenServer(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	r := New(Options{}).web.reach(server.URL)
	if ch, err := r.ask(t.Context(), server.URL); err != nil || ch.Status != http.StatusOK || asked != 2 {
		t.Errorf("challenge %+v after %d requests, %v", ch, asked, err)
	}
}

// TestIssuerAtTheOrigin signs in at a server of 2025-03-26, which has no metadata of its own: its
// origin is the issuer, with or without a slash.
func TestIssuerAtTheOrigin(t *testing.T) {
	for _, slash := range []string{"", "/"} {
		w := newWorld(t)
		w.idp.Quiet, w.idp.NoIssuer, w.idp.NoMetadata = true, true, true
		w.idp.Metadata = map[string]any{"issuer": w.idp.URL + slash, "authorization_response_iss_parameter_supported": nil}
		if _, err := w.get("me"); needsSignIn(t, err) == nil {
			t.Error(err)
		}
		w.signIn("me")
		w.welcome("me")
	}
}

// TestNoIssuerIsGuessed stops at a server whose metadata fail, and at one that names no issuer.
func TestNoIssuerIsGuessed(t *testing.T) {
	w := newWorld(t)
	w.idp.Quiet, w.idp.Resource = true, map[string]any{"resource": "https://evil.example/mcp"}
	if err := w.trySignIn("me"); err == nil || !strings.Contains(err.Error(), "another resource") {
		t.Errorf("metadata that fail: %v", err)
	}
	w = newWorld(t)
	w.idp.Quiet, w.idp.NoMetadata = true, true
	w.idp.Metadata = map[string]any{"issuer": "https://elsewhere.example"}
	if err := w.trySignIn("me"); err == nil || !strings.Contains(err.Error(), "/.well-known/oauth-protected-resource") {
		t.Errorf("an issuer of another name: %v", err)
	}
	w = newWorld(t)
	w.idp.Quiet = true
	w.idp.SetDown(true)
	if err := w.trySignIn("me"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a server that is down: %v", err)
	}
}

// TestTellsLater asks a server that cannot say at first how to sign in: the failure is not taken for
// its answer.
func TestTellsLater(t *testing.T) {
	for name, legacy := range map[string]bool{"metadata": false, "an issuer at the origin": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.idp.Quiet, w.idp.NoMetadata = true, legacy
			w.idp.SetDown(true)
			if legacy {
				w.idp.Answers("/.well-known/oauth-protected-resource/mcp", http.StatusNotFound)
				w.idp.Answers("/.well-known/oauth-protected-resource", http.StatusNotFound)
			}
			if got, err := w.get("me"); got != "401 no" || err != nil {
				t.Fatalf("while the metadata fail: %q, %v", got, err)
			}
			w.idp.SetDown(false)
			_, err := w.get("me")
			needsSignIn(t, err)
		})
	}
}

// TestMetadataIsKept refuses a token with a challenge that does not name the metadata, as the first one
// did: the next sign-in finds them.
func TestMetadataIsKept(t *testing.T) {
	w := newWorld(t)
	_, err := w.get("me")
	needsSignIn(t, err)
	ch := Challenge{Status: http.StatusUnauthorized, Error: "invalid_token"}
	if _, err := w.client.Renew(t.Context(), w.server, "me", Access{}, ch); needsSignIn(t, err) == nil {
		t.Error(err)
	}
	got, err := w.client.challenge(t.Context(), w.server, w.server.id("me"), w.client.web.reach(w.server.URL))
	if want := w.idp.URL + "/.well-known/oauth-protected-resource/mcp"; err != nil || got.Metadata != want || got.Error != "invalid_token" {
		t.Errorf("challenge %+v, %v", got, err)
	}
}
