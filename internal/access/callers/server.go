package callers

import (
	"strings"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/authserver"
	"github.com/weir-mcp/weir/internal/config"
)

// Server returns the policy of the authorization server of a configuration, without People, and nil if it has none.
func Server(c *config.Config) *authserver.Policy {
	s := &c.Auth.Server
	if !s.On() {
		return nil
	}
	public := strings.TrimSuffix(c.PublicURL, "/")
	p := &authserver.Policy{
		Issuer: public, Documents: s.Clients.CIMD, Registration: s.Clients.DCR.Enabled, RegistrationHosts: s.Clients.DCR.Hosts,
		Scopes: s.Granted(), AccessTime: s.AccessTTL, RefreshTime: s.Lasting(), AlwaysConsent: s.Consent == "always",
		Bound: c.Auth.DPoP.Required, Nonces: c.Auth.DPoP.Nonce,
		Resource: func(address string) (string, bool) { return access.Resource(public, address) },
	}
	for _, a := range c.Auth.Accounts {
		p.Accounts = append(p.Accounts, authserver.Account{Name: a.Name, Password: a.Password, Groups: a.Groups})
	}
	for _, k := range s.Clients.Static {
		name := k.Name
		if name == "" {
			name = k.ID
		}
		p.Clients = append(p.Clients, authserver.Client{
			ID: k.ID, Name: name, Redirects: k.Redirects, Logouts: k.Logouts, Secret: k.Secret.Reveal(), KeysURL: k.KeysURL, Groups: k.Groups, Scopes: k.Scopes,
		})
	}
	return p
}

// own returns whom the gateway's own tokens may be of.
func own(c *config.Config, server access.OwnServer) *access.Own {
	s := &c.Auth.Server
	o := &access.Own{Server: server, Scopes: s.Granted(), Prefixes: []string{authserver.AccountIssuer, authserver.ClientIssuer}, Members: map[string][]string{}}
	if s.People == config.PeopleAccounts {
		for _, a := range c.Auth.Accounts {
			o.Members[authserver.AccountIssuer+":"+a.Name] = a.Groups
		}
	}
	for _, k := range s.Clients.Static {
		o.Members[authserver.ClientIssuer+":"+k.ID] = k.Groups
	}
	return o
}
