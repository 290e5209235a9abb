package jwk_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// TestRSAKeysHaveABound needs no key pair: the length of the modulus decides.
func TestRSAKeysHaveABound(t *testing.T) {
	for bits, ok := range map[int]bool{1024: false, 2040: false, 2048: true, 8192: true, 8200: false} {
		n := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, bits/8))
		_, err := jwk.ParseSet([]byte(`{"keys":[{"kty":"RSA","n":"` + n + `","e":"AQAB"}]}`))
		if (err == nil) != ok {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}

// FuzzParseSet checks that every accepted key fits an algorithm and is strong enough.
func FuzzParseSet(f *testing.F) {
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
		keys, err := jwk.ParseSet(raw)
		if err != nil {
			return
		}
		for _, k := range keys {
			fits := false
			for alg := range jwk.Algorithms {
				k.Alg = ""
				fits = fits || k.Fits(alg)
			}
			if !fits {
				t.Errorf("the key %+v of %q verifies nothing", k, raw)
			}
		}
	})
}

// TestThumbprint has the key of RFC 7638 §3.1, and keys of which other libraries say the thumbprint.
func TestThumbprint(t *testing.T) {
	for name, one := range map[string][2]string{
		"RFC 7638": {
			`{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`,
			"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
		},
		"RFC 9449": { // the key of its examples
			`{"kty":"EC","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA","crv":"P-256"}`,
			"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
		},
		"RFC 8037": { // the key of its appendix
			`{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
			"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
		},
	} {
		keys, err := jwk.ParseSet([]byte(`{"keys":[` + one[0] + `]}`))
		if err != nil || keys[0].Thumbprint() != one[1] {
			t.Errorf("%s: %+v, %v, want %q", name, keys, err, one[1])
		}
	}
}
