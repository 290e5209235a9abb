package access

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

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
		if len(text) > maxToken || jwk.Algorithms[got.alg] == nil || len(got.signature) == 0 || got.claims == nil || !strings.HasPrefix(text, got.signed+".") {
			t.Errorf("accepted %q as %+v", text, got)
		}
	})
}
