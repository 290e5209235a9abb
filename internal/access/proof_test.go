package access_test

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// TestTokensBoundToAKey sends requests through a guard: a token that is bound to a DPoP key opens nothing without a proof, and
// the answer says what the next request needs (RFC 9449 §7).
func TestTokensBoundToAKey(t *testing.T) {
	proven(t, access.Policy{}, func(t *testing.T, w proofWorld) {
		k := dpop.NewKey()
		bound, plain := w.token(k.Thumbprint()), w.token("")
		w.wants("with its proof", w.request(bound, k, ""), http.StatusOK)
		w.wants("a second proof", w.request(bound, k, ""), http.StatusOK)
		for name, r := range map[string]*http.Request{
			"as a bearer token":   bearerRequest(bound, nil),
			"without a proof":     dpopRequest(bound),
			"proof of another":    w.request(bound, dpop.NewKey(), ""),
			"token of another":    w.request(w.token("x"), k, ""),
			"proof for two hosts": w.at(bound, k, "https://other.example/mcp"),
		} {
			got := w.wants(name, r, http.StatusUnauthorized)
			challenge := got.Header.Get("WWW-Authenticate")
			if !strings.HasPrefix(challenge, `DPoP resource_metadata="`+public+access.MetadataPath+`/mcp"`) || !strings.Contains(challenge, `algs="ES256 ES384`) || !strings.Contains(challenge, `error="inv`) {
				t.Errorf("%s: %s", name, challenge)
			}
		}
		used := w.request(bound, k, "")
		w.wants("once", used, http.StatusOK)
		if got := w.wants("twice", used, http.StatusUnauthorized).Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="invalid_dpop_proof"`) {
			t.Error(got)
		}
		w.wants("plain, as a bearer token", bearerRequest(plain, nil), http.StatusOK)
		w.wants("plain, with a proof", w.request(plain, k, ""), http.StatusUnauthorized)
		w.wants("static, as a bearer token", bearerRequest("static", nil), http.StatusOK)
		w.wants("static, with a proof", w.request("static", k, ""), http.StatusUnauthorized)
		w.wants("bound to two things", w.request(w.idp.Token(with("cnf", map[string]any{"jkt": k.Thumbprint(), "x5t#S256": "x"})), k, ""), http.StatusUnauthorized)
		if got := w.metadata(); !strings.Contains(got, `"dpop_signing_alg_values_supported":["ES256"`) || strings.Contains(got, "required") {
			t.Error(got)
		}
	})
}

func TestBoundTokensAreRequired(t *testing.T) {
	proven(t, access.Policy{BoundTokens: true}, func(t *testing.T, w proofWorld) {
		k := dpop.NewKey()
		w.wants("bound", w.request(w.token(k.Thumbprint()), k, ""), http.StatusOK)
		got := w.wants("not bound", bearerRequest(w.token(""), nil), http.StatusUnauthorized)
		if c := got.Header.Get("WWW-Authenticate"); !strings.HasPrefix(c, "DPoP ") || !strings.Contains(c, `error="invalid_token"`) {
			t.Error(c)
		}
		w.wants("static", bearerRequest("static", nil), http.StatusOK)
		if got := w.metadata(); !strings.Contains(got, `"dpop_bound_access_tokens_required":true`) {
			t.Error(got)
		}
	})
}

func TestNonceOfAProof(t *testing.T) {
	proven(t, access.Policy{Nonces: true}, func(t *testing.T, w proofWorld) {
		k := dpop.NewKey()
		token := w.token(k.Thumbprint())
		got := w.wants("without a nonce", w.request(token, k, ""), http.StatusUnauthorized)
		nonce := got.Header.Get("DPoP-Nonce")
		if c := got.Header.Get("WWW-Authenticate"); nonce == "" || !strings.Contains(c, `error="use_dpop_nonce"`) || got.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("nonce %q, %s", nonce, c)
		}
		w.wants("with it", w.request(token, k, nonce), http.StatusOK)
		w.wants("with it again", w.request(token, k, nonce), http.StatusOK)
	})
}

// TestStreamOfABoundToken checks that the proof of a request that opened a stream does not end the stream when the
// credentials are checked again, and that the end of the token does.
func TestStreamOfABoundToken(t *testing.T) {
	proven(t, access.Policy{}, func(t *testing.T, w proofWorld) {
		k := dpop.NewKey()
		r := w.request(w.token(k.Thumbprint()), k, "")
		w.wants("at first", r, http.StatusOK)
		for range 5 {
			time.Sleep(10 * time.Minute)
			if _, err := w.guard.Identify(r); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := w.guard.Identify(r); err == nil {
			t.Error("the token has ended")
		}
	})
}

// proofWorld is a guard in front of a handler, and the provider whose tokens it takes.
type proofWorld struct {
	t     *testing.T
	idp   *fakeidp.Provider
	a     *access.Authenticator
	guard *guard.Guard
}

func proven(t *testing.T, p access.Policy, test func(t *testing.T, w proofWorld)) {
	synctest.Test(t, func(t *testing.T) {
		idp := fakeidp.New(fakeidp.Options{Issuer: issuer})
		a := access.New(access.Options{Client: idp.Client(), Proofs: dpop.NewVerifier(dpop.Options{})})
		defer a.Close()
		p.PublicURL, p.Issuers, p.Tokens = public, []access.Issuer{{Name: "corp", Issuer: issuer}}, []access.Token{{Name: "ops", SHA256: sha256.Sum256([]byte("static"))}}
		a.Apply(p)
		g := guard.New(guard.Options{Hosts: []string{"weir.example"}, Authenticate: a.Authenticate, Challenge: a.Challenge})
		time.Sleep(time.Minute)
		test(t, proofWorld{t, idp, a, g})
	})
}

func (w proofWorld) token(thumbprint string) string {
	if thumbprint == "" {
		return w.idp.Token(with("exp", time.Now().Add(time.Hour).Unix()))
	}
	return w.idp.Token(with("exp", time.Now().Add(time.Hour).Unix(), "cnf", map[string]any{"jkt": thumbprint}))
}

func bearerRequest(token string, h http.Header) *http.Request {
	r := httptest.NewRequest("POST", mcpURL, nil)
	for name, values := range h {
		r.Header[name] = values
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func dpopRequest(token string) *http.Request {
	r := httptest.NewRequest("POST", mcpURL, nil)
	r.Header.Set("Authorization", "DPoP "+token)
	return r
}

func (w proofWorld) request(token string, k *dpop.Key, nonce string) *http.Request {
	r := dpopRequest(token)
	if err := k.Sign(r, identity.Secret(token), nonce, time.Now()); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w proofWorld) at(token string, k *dpop.Key, address string) *http.Request {
	u, err := url.Parse(address)
	if err != nil {
		w.t.Fatal(err)
	}
	proof, err := k.Proof("POST", u, identity.Secret(token), "", time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	r := dpopRequest(token)
	r.Header.Set("DPoP", proof)
	return r
}

func (w proofWorld) wants(name string, r *http.Request, status int) *http.Response {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(answer, r)
	if answer.Code != status {
		w.t.Errorf("%s: %d %s %s, want %d", name, answer.Code, answer.Header().Get("WWW-Authenticate"), answer.Body, status)
	}
	return answer.Result()
}

func (w proofWorld) metadata() string {
	answer := httptest.NewRecorder()
	w.a.ServeMetadata(answer, httptest.NewRequest("GET", access.MetadataPath+"/mcp", nil))
	return answer.Body.String()
}
