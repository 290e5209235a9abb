package app

import (
	"encoding/hex"
	"strings"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/config"
)

// Roles that auth.roles gives.
const (
	// RoleOperator is the role of callers who operate the gateway.
	RoleOperator = "operator"
	roleAuditor  = "auditor"
)

// CallerPolicy returns who may call by a configuration.
func CallerPolicy(c *config.Config) access.Policy {
	p := access.Policy{PublicURL: strings.TrimSuffix(c.PublicURL, "/"), Certificates: c.TLS.ClientCA != "", Roles: []access.Role{
		{Name: RoleOperator, Principals: c.Auth.Roles.Operator.Principals, Groups: c.Auth.Roles.Operator.Groups},
		{Name: roleAuditor, Principals: c.Auth.Roles.Auditor.Principals, Groups: c.Auth.Roles.Auditor.Groups},
	}}
	p.Tokens = staticTokens(&c.Auth)
	for _, i := range c.Auth.Issuers {
		issuer := access.Issuer{
			Name: i.Name, Issuer: i.Issuer, JWKS: i.JWKS, Audiences: i.Audiences, Subject: i.Subject, Groups: i.Groups, Require: i.Require, Scopes: i.Scopes,
		}
		if at := i.Introspection; at.URL != "" {
			issuer.Introspection = &access.Introspection{URL: at.URL, Prefix: at.Prefix, ClientID: at.ClientID, ClientSecret: at.ClientSecret.Reveal()}
		}
		p.Issuers = append(p.Issuers, issuer)
	}
	if l := &c.Auth.Login; l.Issuer != "" {
		p.Login = &access.Login{Issuer: l.Issuer, ClientID: l.ClientID, ClientSecret: l.ClientSecret.Reveal(), Scopes: l.Scopes}
	}
	return p
}

// staticTokens returns the tokens of a configuration.
func staticTokens(auth *config.Auth) (tokens []access.Token) {
	for i := range auth.Tokens {
		t := &auth.Tokens[i]
		token := access.Token{Name: t.Name, Groups: t.Groups, Expires: t.Ends()}
		if n, err := hex.Decode(token.SHA256[:], []byte(t.SHA256)); err != nil || n != len(token.SHA256) {
			continue // the configuration was checked
		}
		tokens = append(tokens, token)
	}
	return tokens
}
