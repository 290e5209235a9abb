package app

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/oauth"
	"github.com/weir-mcp/weir/internal/vault"
	"github.com/weir-mcp/weir/mcp"
)

// signIns puts the tokens of sign-ins on requests to upstreams. All callers of an upstream share its
// sign-in.
type signIns struct {
	client *oauth.Client
	config func() *config.Config
}

// newSignIns returns the sign-ins of a store; a nil store is memory. inUse gets each token that is put
// on requests.
func newSignIns(store vault.Store, config func() *config.Config, publicURL string, inUse func(token string)) *signIns {
	if store == nil {
		store = vault.NewMemory(nil)
	}
	return &signIns{oauth.New(oauth.Options{Store: store, PublicURL: publicURL, InUse: inUse}), config}
}

// SignInServer describes a server of the configuration to the sign-in. ok is false for servers that
// weir starts itself, and for those with an Authorization header of the configuration.
func SignInServer(s *config.Server) (server *oauth.Server, ok bool) {
	if s.URL == "" || s.Command != "" || s.Agent || s.Authorized() {
		return nil, false
	}
	o := s.OAuth
	return &oauth.Server{
		Name: s.Name, URL: s.URL, Configured: o.Given(), Flow: flowOf(o.Flow), Issuer: o.Issuer,
		ClientID: o.ClientID, ClientSecret: identity.Secret(o.ClientSecret.Reveal()), AuthMethod: o.AuthMethod,
		PrivateKey: identity.Secret(o.PrivateKey.Reveal()), AssertionFile: o.AssertionFile,
		Scopes: o.Scopes, NoResource: o.Resource == "none", Params: o.Params, NoDocument: o.Given() && !o.CIMD,
	}, true
}

// flowOf returns the flow of the configuration; entries that were not read from a file have none.
func flowOf(f config.OAuthFlow) oauth.Flow {
	switch f {
	case config.OAuthDevice:
		return oauth.FlowDevice
	case config.OAuthClientCredentials:
		return oauth.FlowClientCredentials
	}
	return oauth.FlowCode
}

// server describes a server of the current configuration.
func (s *signIns) server(name string) (*oauth.Server, bool) {
	c, ok := s.config().Server(name)
	if !ok {
		return nil, false
	}
	return SignInServer(c)
}

// signedIn reports whether requests to an upstream carry a token.
func (s *signIns) signedIn(name string) bool {
	server, ok := s.server(name)
	return ok && s.client.SignedIn(context.Background(), server, oauth.Shared)
}

// over returns a wrapper of transports that adds tokens to what next makes.
func (s *signIns) over(next func(string, *mcp.Session, http.RoundTripper) http.RoundTripper) func(string, *mcp.Session, http.RoundTripper) http.RoundTripper {
	return func(name string, session *mcp.Session, base http.RoundTripper) http.RoundTripper {
		base = next(name, session, base)
		if server, ok := s.server(name); ok {
			return s.client.Transport(server, oauth.Shared, base)
		}
		return base
	}
}
