package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
)

// bindTokens makes the servers of a world ask for proofs, and for nonces in them if nonce says so. All issuers advertise
// proofs then.
func (w *world) bindTokens(nonce bool) {
	v := dpop.NewVerifier(dpop.Options{Now: func() time.Time { return w.now() }})
	w.pass(time.Minute) // what was used before the start of v is not known
	w.idp.Metadata = map[string]any{"dpop_signing_alg_values_supported": []string{"RS256", "ES256"}}
	w.idp.Proof = func(r *http.Request, address, token string) (string, string, string) {
		thumbprint, err := v.Check(r.Context(), r.Header, dpop.Expect{Method: r.Method, URL: address, Token: identity.Secret(token), Nonce: nonce})
		var refusal *dpop.Refusal
		if errors.As(err, &refusal) {
			return "", refusal.Code, refusal.Nonce
		}
		return thumbprint, "", ""
	}
}

func TestTokensBoundToAKey(t *testing.T) {
	for _, nonce := range []bool{false, true} {
		t.Run(fmt.Sprintf("nonce %v", nonce), func(t *testing.T) {
			w := newWorld(t)
			w.bindTokens(nonce)
			w.signIn("me")
			w.welcome("me")
			w.welcome("me")
			before, err := w.client.Token(t.Context(), w.server, "me")
			if err != nil || before.key == nil {
				t.Fatalf("%v, %v", before, err)
			}
			// Refreshed by another process, which has the key from the vault.
			w.pass(55 * time.Minute)
			w.client = w.another()
			w.welcome("me")
			after, err := w.client.Token(t.Context(), w.server, "me")
			if err != nil || after.Token == before.Token || after.key.Thumbprint() != before.key.Thumbprint() || w.idp.Count("refreshed") != 1 {
				t.Errorf("%v, %v, %d refreshes", after, err, w.idp.Count("refreshed"))
			}
			// A token that was stolen from the wire opens nothing.
			req, _ := http.NewRequest(http.MethodPost, w.server.URL, strings.NewReader("{}"))
			req.Header.Set("Authorization", "DPoP "+string(after.Token))
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil || resp.StatusCode != http.StatusUnauthorized {
				t.Fatalf("%v, %v", resp, err)
			}
			Drop(resp)
			// The next sign-in has a key of its own.
			w.signIn("me")
			w.welcome("me")
			if next, err := w.client.Token(t.Context(), w.server, "me"); err != nil || next.key.Thumbprint() == after.key.Thumbprint() {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestBoundTokensOfAMachine: weir itself signs in with a key, for a configured issuer too.
func TestBoundTokensOfAMachine(t *testing.T) {
	w := newWorld(t)
	w.bindTokens(true)
	w.idp.Secret = "hunter2"
	w.server.Flow, w.server.ClientID, w.server.ClientSecret, w.server.Issuer, w.server.Configured = FlowClientCredentials, "configured", "hunter2", w.idp.URL, true
	w.idp.NoResource = false
	w.welcome(Shared)
	w.pass(2 * time.Hour)
	w.welcome(Shared)
}

// TestServerWithoutProofs: an issuer that could bind tokens binds none for a server that does not ask for it.
func TestServerWithoutProofs(t *testing.T) {
	w := newWorld(t)
	w.idp.Metadata = map[string]any{"dpop_signing_alg_values_supported": []string{"ES256"}}
	w.signIn("me")
	w.welcome("me")
	if a, err := w.client.Token(t.Context(), w.server, "me"); err != nil || a.key != nil {
		t.Errorf("%v, %v", a, err)
	}
}

// TestIssuerWithoutBinding: a bearer token is taken although a proof was sent, and a token of type DPoP only with a key.
func TestIssuerWithoutBinding(t *testing.T) {
	with, without := &grant{Key: dpop.NewKey()}, &grant{}
	for _, c := range []struct {
		g         *grant
		kind      string
		ok, bound bool
	}{{with, "bearer", true, false}, {with, "DPoP", true, true}, {with, "dpop", true, true}, {without, "DPoP", false, false}, {with, "mac", false, false}} {
		got, err := c.g.take(&tokenAnswer{Access: "t", Type: c.kind}, nil, time.Now())
		if (err == nil) != c.ok || err == nil && (got.access().key != nil) != c.bound {
			t.Errorf("%s: %+v, %v", c.kind, got, err)
		}
	}
}
