package authserver_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/authserver"
	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
)

// TestBoundTokens: a client that shows a proof has tokens that only its key uses, and a code may be bound before.
func TestBoundTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.o.Proofs = dpop.NewVerifier(dpop.Options{})
		w.s = w.node()
		time.Sleep(11 * time.Second) // proofs of before the start do not count
		mine, theirs := dpop.NewKey(), dpop.NewKey()
		at, err := url.Parse(base + tokenPath)
		if err != nil {
			t.Fatal(err)
		}
		proof := func(k *dpop.Key) string {
			text, err := k.Proof("POST", at, "", "", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		start := func(change ...string) url.Values {
			v := newVerifier()
			back := w.browse(request("app", appBack, v, change...))
			return url.Values{"grant_type": {"authorization_code"}, "client_id": {"app"}, "code": {back.Query().Get("code")}, "code_verifier": {v}}
		}
		if a := w.post(tokenPath, start("dpop_jkt", mine.Thumbprint()), "DPoP", proof(theirs)); a.text("error") != "invalid_grant" {
			t.Errorf("a code that is bound to another key: %v", a)
		}
		if a := w.post(tokenPath, start("dpop_jkt", mine.Thumbprint())); a.text("error") != "invalid_grant" {
			t.Errorf("a bound code without a proof: %v", a)
		}
		if a := w.post(tokenPath, start(), "DPoP", "x.y.z"); a.text("error") != "invalid_dpop_proof" {
			t.Errorf("a forged proof: %v", a)
		}
		once := proof(mine)
		a := w.post(tokenPath, start(), "DPoP", once)
		if a.status != http.StatusOK || a.text("token_type") != "DPoP" {
			t.Fatal(a)
		}
		if b := w.post(tokenPath, start(), "DPoP", once); b.text("error") != "invalid_dpop_proof" {
			t.Errorf("a proof twice: %v", b)
		}
		again := func(more ...string) answer {
			return w.post(tokenPath, url.Values{"grant_type": {"refresh_token"}, "client_id": {"app"}, "refresh_token": {a.text("refresh_token")}}, more...)
		}
		if b := again(); b.text("error") != "invalid_grant" {
			t.Errorf("a bound refresh token without a proof: %v", b)
		}
		if b := again("DPoP", proof(theirs)); b.text("error") != "invalid_grant" {
			t.Errorf("a bound refresh token with another key: %v", b)
		}
		if b := again("DPoP", proof(mine)); b.status != http.StatusOK || b.text("token_type") != "DPoP" {
			t.Errorf("refresh: %v", b)
		}

		resource := access.New(access.Options{Proofs: w.o.Proofs})
		defer resource.Close()
		resource.Apply(access.Policy{PublicURL: base, Own: &access.Own{Server: w.s, Prefixes: []string{"account"}, Members: map[string][]string{"account:ann": nil}}})
		call := func(k *dpop.Key, scheme string) error {
			r := httptest.NewRequest("POST", base+"/mcp", nil)
			r.Header.Set("Authorization", scheme+" "+a.text("access_token"))
			if k != nil {
				if err := k.Sign(r, identity.Secret(a.text("access_token")), "", time.Now()); err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", scheme+" "+a.text("access_token"))
			}
			_, err := resource.Authenticate(r, a.text("access_token"))
			return err
		}
		if err := call(mine, "DPoP"); err != nil {
			t.Errorf("the key of the token: %v", err)
		}
		for name, err := range map[string]error{"no proof": call(nil, "DPoP"), "as a bearer": call(mine, "Bearer"), "another key": call(theirs, "DPoP")} {
			if err == nil {
				t.Errorf("%s opens the gateway", name)
			}
		}
		w.p.Bound, w.p.Nonces = true, true
		w.s.Apply(&w.p)
		if b := w.post(tokenPath, start()); b.text("error") != "invalid_dpop_proof" {
			t.Errorf("no proof where all tokens are bound: %v", b)
		}
		rec := w.ask("POST", base+tokenPath, start(), "DPoP", proof(mine))
		nonce := rec.Header().Get("DPoP-Nonce")
		if rec.Code != http.StatusBadRequest || nonce == "" {
			t.Fatalf("no nonce: %d %s", rec.Code, rec.Body)
		}
		text, err := mine.Proof("POST", at, "", nonce, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if b := w.post(tokenPath, start(), "DPoP", text); b.status != http.StatusOK {
			t.Errorf("with the nonce: %v", b)
		}
	})
}

var _ access.OwnServer = (*authserver.Server)(nil)
