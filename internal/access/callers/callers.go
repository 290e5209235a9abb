package callers

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/store"
)

// Roles that auth.roles gives.
const (
	// RoleOperator is the role of callers who operate the gateway.
	RoleOperator = "operator"
	roleAuditor  = "auditor"
)

// Policy returns who may call by a configuration. server is the authorization server of the gateway, nil without one.
func Policy(c *config.Config, server access.OwnServer) access.Policy {
	p := access.Policy{PublicURL: strings.TrimSuffix(c.PublicURL, "/"), Certificates: c.TLS.ClientCA != "", Roles: []access.Role{
		{Name: RoleOperator, Principals: c.Auth.Roles.Operator.Principals, Groups: c.Auth.Roles.Operator.Groups},
		{Name: roleAuditor, Principals: c.Auth.Roles.Auditor.Principals, Groups: c.Auth.Roles.Auditor.Groups},
	}}
	p.Tokens, p.BoundTokens, p.Nonces = Tokens(&c.Auth), c.Auth.DPoP.Required, c.Auth.DPoP.Nonce
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
		p.Login = &access.Login{Issuer: l.Issuer, ClientID: l.ClientID, ClientSecret: l.ClientSecret.Reveal(), Scopes: l.Scopes, UserInfo: l.UserInfo}
	}
	if server != nil {
		p.Own = own(c, server)
	}
	return p
}

// usedProofs is the prefix of the documents of DPoP proofs that were used.
const usedProofs = store.ProofKeys

// Proofs returns what checks DPoP proofs. shared says that other processes use the store: together they take each proof
// once, and each takes the nonces of all.
func Proofs(s store.Store, shared bool) *dpop.Verifier {
	o := dpop.Options{Secret: s.Key().Secret("dpop")}
	if shared {
		o.Once = func(ctx context.Context, proof string, ttl time.Duration) (bool, error) {
			_, err := s.Set(ctx, usedProofs+store.Hash(proof), nil, 0, ttl)
			if errors.Is(err, store.ErrConflict) {
				return false, nil
			}
			return err == nil, err
		}
	}
	return dpop.NewVerifier(o)
}

// Tokens returns the tokens of a configuration.
func Tokens(auth *config.Auth) (tokens []access.Token) {
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

// Guard returns the request checks of a configuration, without authentication.
func Guard(c *config.Config, log *slog.Logger) guard.Options {
	o := guard.Options{Hosts: c.HTTP.AllowedHosts, Origins: c.HTTP.AllowedOrigins, HostsKey: "http.allowed_hosts", OriginsKey: "http.allowed_origins", Logger: log}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		o.Hosts = append(append([]string(nil), o.Hosts...), u.Hostname())
		o.Origins = append(append([]string(nil), o.Origins...), address.Origin(c.PublicURL))
	}
	return o
}
