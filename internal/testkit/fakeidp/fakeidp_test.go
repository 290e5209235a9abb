package fakeidp_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Tests ask a Provider for the token that they need.
func Example() {
	p := fakeidp.New(fakeidp.Options{Issuer: "https://id.example/t1"})
	token := p.Token(map[string]any{"aud": "https://weir.example/mcp", "groups": []string{"sre"}})
	parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(parsed.Header["alg"], parsed.Claims.(jwt.MapClaims)["sub"])
	// Output: ES256 u1
}

func get(t *testing.T, c *http.Client, address string, into any) int {
	t.Helper()
	r, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusOK && into != nil {
		if err := json.NewDecoder(r.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return r.StatusCode
}

// TestSignatures checks that a foreign library verifies each algorithm.
func TestSignatures(t *testing.T) {
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256"} {
		s := fakeidp.NewSigner(alg)
		token := s.Sign(nil, map[string]any{"sub": "u1"})
		_, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return s.Public(), nil }, jwt.WithValidMethods([]string{alg}))
		if err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestDiscoveryRotationAndOutage(t *testing.T) {
	p := fakeidp.New(fakeidp.Options{Issuer: "https://id.example/t"})
	c := p.Client()
	var meta struct{ Issuer, Jwks_uri string }
	for _, path := range []string{"/.well-known/oauth-authorization-server/t", "/.well-known/openid-configuration/t", "/t/.well-known/openid-configuration"} {
		if get(t, c, "https://id.example"+path, &meta) != 200 || meta.Issuer != "https://id.example/t" {
			t.Errorf("%s: %+v", path, meta)
		}
	}
	first := p.Signer().KeyID
	second := p.Rotate("EdDSA").KeyID
	var set struct{ Keys []struct{ Kid string } }
	get(t, c, meta.Jwks_uri, &set)
	if len(set.Keys) != 2 || set.Keys[0].Kid != first || set.Keys[1].Kid != second {
		t.Errorf("keys %+v", set)
	}
	p.Retire()
	get(t, c, meta.Jwks_uri, &set)
	if len(set.Keys) != 1 || set.Keys[0].Kid != second || p.Requests("/t/jwks") != 2 {
		t.Errorf("keys %+v after %d requests", set, p.Requests("/t/jwks"))
	}
	p.Outage(true)
	if status := get(t, c, meta.Jwks_uri, nil); status != 503 {
		t.Errorf("an outage answers %d", status)
	}
	p.Unreachable(true)
	if r, err := c.Get(meta.Jwks_uri); err == nil {
		r.Body.Close()
		t.Error("an unreachable provider answers")
	}
}

func TestIntrospection(t *testing.T) {
	p := fakeidp.New(fakeidp.Options{Issuer: "https://id.example", ClientID: "weir", ClientSecret: "s"})
	token := p.Opaque(map[string]any{"scope": "mcp"})
	ask := func(id, secret string) (int, map[string]any) {
		r, err := http.NewRequest("POST", "https://id.example/introspect", strings.NewReader("token="+token))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(id, secret)
		resp, err := p.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out map[string]any
		_ = json.NewDecoder(resp.Body).Decode(&out)
		return resp.StatusCode, out
	}
	if status, out := ask("weir", "s"); status != 200 || out["active"] != true || out["scope"] != "mcp" {
		t.Errorf("%d %v", status, out)
	}
	if status, _ := ask("weir", "x"); status != 401 {
		t.Errorf("a foreign client gets %d", status)
	}
	p.Revoke(token)
	if _, out := ask("weir", "s"); out["active"] != false {
		t.Errorf("a revoked token: %v", out)
	}
}

// TestCode plays a client: code with PKCE, then a refresh token that works once.
func TestCode(t *testing.T) {
	p, server := fakeidp.Start(fakeidp.Options{}, "/t")
	defer server.Close()
	c := server.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	sum := sha256.Sum256([]byte("verifier"))
	resp, err := c.Get(p.Issuer() + "/authorize?" + url.Values{
		"client_id": {"cli"}, "redirect_uri": {"http://127.0.0.1/cb"}, "state": {"st"}, "resource": {"https://weir.example/mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil || back.Query().Get("state") != "st" || back.Query().Get("iss") != p.Issuer() {
		t.Fatalf("%v, %v", back, err)
	}
	exchange := func(form url.Values) (int, map[string]any) {
		resp, err := c.PostForm(p.Issuer()+"/token", form)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out map[string]any
		_ = json.NewDecoder(resp.Body).Decode(&out)
		return resp.StatusCode, out
	}
	code := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {"http://127.0.0.1/cb"}, "code_verifier": {"verifier"}}
	status, tokens := exchange(code)
	if status != 200 || tokens["access_token"] == nil {
		t.Fatalf("%d %v", status, tokens)
	}
	if status, _ := exchange(code); status != 400 {
		t.Errorf("a code works twice: %d", status)
	}
	again := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)}}
	if status, _ := exchange(again); status != 200 {
		t.Errorf("refresh: %d", status)
	}
	if status, _ := exchange(again); status != 400 {
		t.Errorf("a refresh token works twice: %d", status)
	}
}
