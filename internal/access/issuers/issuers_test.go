package issuers_test

import (
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/access/issuers"
)

func TestDocuments(t *testing.T) {
	const root = "https://a.example/.well-known/"
	for text, want := range map[string][]string{
		"https://a.example":       {root + "oauth-authorization-server", root + "openid-configuration"},
		"https://a.example/":      {root + "oauth-authorization-server", root + "openid-configuration"},
		"https://a.example/t":     {root + "oauth-authorization-server/t", root + "openid-configuration/t", "https://a.example/t/.well-known/openid-configuration"},
		"https://a.example/t/":    {root + "oauth-authorization-server/t", root + "openid-configuration/t", "https://a.example/t/.well-known/openid-configuration"},
		"https://a.example/a%2Fb": {root + "oauth-authorization-server/a%2Fb", root + "openid-configuration/a%2Fb", "https://a.example/a%2Fb/.well-known/openid-configuration"},
		"https://a.example?q":     nil,
		"https://a.example/#f":    nil,
		"nonsense":                nil,
		"a.example":               nil,
		"https://a.example/%zz":   nil,
	} {
		if got := issuers.Documents(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestChallenge has the example of RFC 7636, appendix B.
func TestChallenge(t *testing.T) {
	if got := issuers.Challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"); got != "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" {
		t.Error(got)
	}
}
