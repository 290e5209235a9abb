package access

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// TestRSAKeysHaveABound needs no key pair: the length of the modulus decides.
func TestRSAKeysHaveABound(t *testing.T) {
	for bits, ok := range map[int]bool{1024: false, 2040: false, 2048: true, 8192: true, 8200: false} {
		n := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, bits/8))
		_, err := parseJWKS([]byte(`{"keys":[{"kty":"RSA","n":"` + n + `","e":"AQAB"}]}`))
		if (err == nil) != ok {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}

// FuzzParseJWT checks that what parses is in bounds and has one of the algorithms.
func FuzzParseJWT(f *testing.F) {
	s := fakeidp.NewSigner("EdDSA")
	f.Add(s.Sign(nil, map[string]any{"iss": "https://a", "exp": 1, "aud": []string{"x"}}))
	f.Add(s.Sign(map[string]any{"crit": []string{"x"}}, nil))
	f.Add(s.As("none").Sign(nil, map[string]any{}))
	f.Add("a.b.c")
	f.Add("..")
	f.Add(strings.Repeat("e30.", 100))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseJWT(text)
		if err != nil {
			return
		}
		if len(text) > maxToken || algorithms[got.alg] == nil || len(got.signature) == 0 || got.claims == nil || !strings.HasPrefix(text, got.signed+".") {
			t.Errorf("accepted %q as %+v", text, got)
		}
	})
}

// FuzzParseJWKS checks that every accepted key fits an algorithm and is strong enough.
func FuzzParseJWKS(f *testing.F) {
	for _, alg := range []string{"ES256", "ES384", "ES512", "EdDSA", "HS256"} {
		raw, err := json.Marshal(map[string]any{"keys": []any{fakeidp.NewSigner(alg).JWK()}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"","y":""}]}`))
	f.Add([]byte(`{"keys":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := parseJWKS(raw)
		if err != nil {
			return
		}
		for _, k := range keys {
			fits := false
			for alg := range algorithms {
				k.alg = ""
				fits = fits || k.fits(alg)
			}
			if !fits {
				t.Errorf("the key %+v of %q verifies nothing", k, raw)
			}
		}
	})
}
