package app

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/config"
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

// newSignIns returns the sign-ins of a store; a nil store is memory.
func newSignIns(store vault.Store, config func() *config.Config, publicURL string) *signIns {
	if store == nil {
		store = vault.NewMemory(nil)
	}
	return &signIns{oauth.New(oauth.Options{Store: store, PublicURL: publicURL}), config}
}

// SignInServer describes a server of the configuration to the sign-in. ok is false for servers that
// weir starts itself, and for those with an Authorization header of the configuration.
func SignInServer(s *config.Server) (server *oauth.Server, ok bool) {
	if s.URL == "" || s.Command != "" || s.Agent {
		return nil, false
	}
	for name := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return nil, false
		}
	}
	return &oauth.Server{Name: s.Name, URL: s.URL, Flow: oauth.FlowCode}, true
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
