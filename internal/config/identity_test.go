package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestPrincipalsCannotCollide: no two ways to show who one is may lead to the same principal.
func TestPrincipalsCannotCollide(t *testing.T) {
	const hash = "3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c"
	for _, tt := range []struct{ text, want string }{
		// The subject b:c of the issuer a would be the subject c of the issuer a:b.
		{`{issuers: {a: {issuer: "https://a"}, "a:b": {issuer: "https://b"}}}`, "auth.issuers.a:b: the name"},
		{`{issuers: {"": {issuer: "https://a"}}}`, "the name"},
		{`{issuers: {"a b": {issuer: "https://a"}}}`, "the name"},
		{`{issuers: {CERT: {issuer: "https://a"}}}`, "the name cert is taken"},
		{`{issuers: {a: {issuer: "https://a"}}, tokens: [{name: "a:b", sha256: ` + hash + `}]}`, "looks like a principal"},
		{`{tokens: [{name: "cert:spiffe://a/b", sha256: ` + hash + `}]}`, "looks like a principal"},
		{`{tokens: [{name: local, sha256: ` + hash + `}]}`, "auth.tokens[0].name: \"local\" is the principal of callers"},
		{`{issuers: {corp-2.eu_x: {issuer: "https://a"}}, tokens: [{name: ci, sha256: ` + hash + `}]}`, ""},
	} {
		_, _, err := config.Parse("weir.yaml", []byte("public_url: https://w\nagents: {}\ntls: {cert: a, key: b, client_ca: c}\nauth: "+tt.text), config.Options{})
		if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && !strings.Contains(got, tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestLogin: auth.login needs an issuer that is there, and a client.
func TestLogin(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{issuer: corp, client_id: w}`, ""},
		{`{issuer: corp, client_id: w, client_secret: s, scopes: [groups]}`, ""},
		{`{issuer: scoped, client_id: w}`, "everyone whom the issuer"},
		{`{issuer: other, client_id: w}`, `auth.issuers has no "other"`},
		{`{client_id: w}`, "auth.login.issuer is missing"},
		{`{issuer: corp}`, "auth.login.client_id is missing"},
		{`{issuer: corp, client_id: w, scopes: ["a b"]}`, "without spaces"},
	} {
		_, warnings, err := config.Parse("weir.yaml", []byte("public_url: https://w\nagents: {}\nauth: {issuers: {corp: {issuer: \"https://a\"}, scoped: {issuer: \"https://b\", scopes: [mcp]}}, login: "+tt.text+"}\n"), config.Options{})
		if err == nil && len(warnings) > 0 {
			err = fmt.Errorf("%v", warnings)
		}
		if tt.want == "" && err != nil || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestHasOperator: an operator may come from each way to show who one is.
func TestHasOperator(t *testing.T) {
	const token = "tokens: [{name: ci, groups: [bots], sha256: 3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c3b6c%s}]"
	const issuer = `issuers: {corp: {issuer: "https://a"}}`
	plain := fmt.Sprintf(token, "")
	for _, tt := range []struct {
		auth, tls string
		want      bool
	}{
		{plain, "", false},
		{fmt.Sprintf(token, ", operator: true"), "", true},
		{plain + ", roles: {operator: {principals: [ci]}}", "", true},
		{plain + ", roles: {operator: {groups: [bots]}}", "", true},
		{plain + ", roles: {operator: {groups: [sre], principals: [ann]}}", "", false},
		{issuer, "", false},
		{issuer + ", roles: {operator: {groups: [sre]}}", "", true},
		{issuer + `, roles: {operator: {principals: ["corp:u1"]}}`, "", true},
		{issuer + `, roles: {operator: {principals: ["other:u1"]}}`, "", false},
		{issuer + ", roles: {auditor: {groups: [sre]}}", "", false},
		{`roles: {operator: {principals: ["cert:spiffe://a/b"]}}`, "tls: {cert: a, key: b, client_ca: c}", true},
		{`roles: {operator: {groups: [sre]}}`, "tls: {cert: a, key: b, client_ca: c}", false}, // certificates have no groups
		{`roles: {operator: {principals: ["cert:spiffe://a/b"]}}`, "", false},
	} {
		c, _, err := config.Parse("weir.yaml", []byte("public_url: https://w\nagents: {}\n"+tt.tls+"\nauth: {"+tt.auth+"}\n"), config.Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.auth, err)
			continue
		}
		if got := c.Auth.HasOperator(); got != tt.want {
			t.Errorf("{%s} %s: %v", tt.auth, tt.tls, got)
		}
	}
}

// TestOpaqueTokensHaveOneIssuer: the operator says which issuer may see which opaque tokens.
func TestOpaqueTokensHaveOneIssuer(t *testing.T) {
	of := func(name, prefix string) string {
		if prefix != "" {
			prefix = ", prefix: " + prefix
		}
		return name + `: {issuer: "https://` + name + `", introspection: {url: "https://` + name + `/i"` + prefix + `}}`
	}
	for _, tt := range []struct{ text, want string }{
		{of("a", ""), ""},
		{of("a", "a_") + ", " + of("b", ""), ""},
		{of("a", "a_") + ", " + of("b", "a_b_"), ""},
		{of("a", "") + ", " + of("b", "") + ", " + of("c", "c_"), "auth.issuers.b.introspection.prefix is missing: auth.issuers.a has none either"},
		{of("a", "a_") + ", " + of("b", "a_"), "auth.issuers.b.introspection.prefix and that of auth.issuers.a are the same"},
		{of("a", `"a b"`), "auth.issuers.a.introspection.prefix must be the beginning of a token"},
		{of("a", "") + `, b: {issuer: "https://b"}`, ""},
	} {
		_, _, err := config.Parse("weir.yaml", []byte("public_url: https://w\nagents: {}\nauth: {issuers: {"+tt.text+"}}\n"), config.Options{})
		if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && !strings.Contains(got, tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}
