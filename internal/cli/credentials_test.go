package cli

import (
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestPersonal: a gateway that tells callers apart never lends them the sign-ins of the person who
// runs it.
func TestPersonal(t *testing.T) {
	for text, want := range map[string]bool{
		"":                       true,
		"listen: 127.0.0.1:9000": true,
		"tls: {cert: a, key: b}": true,
		`auth: {tokens: [{name: ci, sha256: 3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c}]}`: false,
		"public_url: http://127.0.0.1:8088\nauth: {issuers: {corp: {issuer: \"https://a\"}}}":                    false,
		"tls: {cert: a, key: b, client_ca: c}":                                                                   false,
	} {
		c, _, err := config.Parse("weir.yaml", []byte("agents: {}\n"+text), config.Options{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := personal(c); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
