package jwk_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/jwk"
)

// TestSignaturesOfTheRFCs: keys verify the examples of RFC 7515 appendix A, RFC 7520 §4 and RFC 8037 appendix A.4, by
// their own algorithm only, and no other text.
func TestSignaturesOfTheRFCs(t *testing.T) {
	raw, err := os.ReadFile("testdata/signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name, Alg, Token string
		Key              map[string]any
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all) != 7 {
		t.Fatal(len(all), err)
	}
	for _, one := range all {
		at := strings.LastIndexByte(one.Token, '.')
		signature, err := base64.RawURLEncoding.DecodeString(one.Token[at+1:])
		key, ok := jwk.Of(one.Key)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", one.Name, ok, err)
		}
		for alg := range jwk.Algorithms {
			if key.Verify(alg, one.Token[:at], signature) != (alg == one.Alg) {
				t.Errorf("%s by %s", one.Name, alg)
			}
		}
		if key.Verify(one.Alg, one.Token[:at-1], signature) {
			t.Errorf("%s verifies another text", one.Name)
		}
		signature[3] ^= 1
		if key.Verify(one.Alg, one.Token[:at], signature) {
			t.Errorf("%s: another signature is accepted", one.Name)
		}
	}
}
