package credentials

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// SignIns puts the tokens of sign-ins on requests to upstreams, and implements signin.SignIns and
// upstream.Credentials. The callers of an upstream share its sign-in, or each of them has one.
type SignIns struct {
	client  *oauth.Client
	traded  *oauth.Exchanger
	holders *holders
	texts   *texts
	shown   *shown
	inUse   func(token string)
	config  func() *config.Config
	known   atomic.Pointer[knownServers]
	pages   atomic.Pointer[string] // the base URL of the pages on which people sign in; nil: there are none
}

var (
	_ signin.SignIns       = (*SignIns)(nil)
	_ upstream.Credentials = (*SignIns)(nil)
)

// New returns the sign-ins of a store; a nil store is memory. inUse gets each token that is put
// on requests. The caller calls Close.
func New(store vault.Store, config func() *config.Config, inUse func(token string), log *slog.Logger) *SignIns {
	if store == nil {
		store = vault.NewMemory(nil)
	}
	s := &SignIns{config: config, holders: newHolders(store), texts: newTexts(store, inUse), shown: newShown(), inUse: inUse}
	s.client = oauth.New(oauth.Options{Store: store, PublicURL: func() string { return config().PublicURL }, InUse: inUse, Page: s.page, Logger: log})
	s.traded = oauth.NewExchanger(s.client)
	return s
}

// Close stores the tokens that could not be stored before. No request may be in progress.
func (s *SignIns) Close(ctx context.Context) error { return s.client.Close(ctx) }

// Serve says that people sign in at pages below a base URL; "" says that there are none.
func (s *SignIns) Serve(base string) { s.pages.Store(&base) }

// page returns the page on which people sign in at a server, "" if there is none.
func (s *SignIns) page(server string) string {
	if base := s.pages.Load(); base != nil && *base != "" {
		return signin.URL(*base, server)
	}
	return ""
}

// Owner implements signin.SignIns. A sign-in that all callers share is an operator's, if the gateway
// tells callers apart. Any other is of the caller.
func (s *SignIns) Owner(caller *identity.Identity, server string) (string, error) {
	auth := s.config().Auth
	if auth.Required() && (auth.MetricsOnly(caller.Principal) || !auth.Reaches(caller.Principal, server)) {
		return "", fmt.Errorf("this token does not open the server %q", server)
	}
	entry, ok := s.config().Server(server)
	if ok {
		_, ok = SignInServer(entry)
	}
	switch {
	case !ok:
		return "", fmt.Errorf("the gateway has no server %q to sign in at", server)
	case entry.FromCaller():
		return "", fmt.Errorf("no person signs in at %q: weir gets a token for it with the one that the caller shows", server)
	case entry.PerPrincipal() && caller.Principal == "":
		return "", fmt.Errorf("each caller of %q signs in, and this one has no name", server)
	case entry.PerPrincipal():
		return caller.Principal, nil
	}
	if auth.Required() && !caller.HasRole("operator") && !auth.Operates(caller.Principal) {
		return "", fmt.Errorf("all callers share the sign-in at %q: an operator of the gateway makes it (auth.roles.operator, or operator: true at a token)", server)
	}
	return oauth.Shared, nil
}

// Begin implements signin.SignIns.
func (s *SignIns) Begin(ctx context.Context, server, principal, redirect string) (address, state string, err error) {
	known, ok := s.server(server)
	if !ok {
		return "", "", fmt.Errorf("the server %q was removed", server)
	}
	return s.client.Begin(ctx, known, principal, redirect)
}

// Finish implements signin.SignIns.
func (s *SignIns) Finish(ctx context.Context, principal, tail string, query url.Values) (string, error) {
	defer s.holders.forget()
	return s.client.Finish(withSignIn(ctx), principal, tail, query)
}

// SignInServer describes a server of the configuration to the sign-in. ok is false for servers that
// weir starts itself, and for those with an Authorization header of the configuration, credentials of
// callers (${user:NAME}) or their tokens (credentials: forward).
func SignInServer(s *config.Server) (server *oauth.Server, ok bool) {
	if s.URL == "" || s.Command != "" || s.Agent || s.Authorized() || s.Forwards() || len(s.UserTexts()) > 0 {
		return nil, false
	}
	o := s.OAuth
	return &oauth.Server{
		Name: s.Name, URL: s.URL, Configured: o.Given(), Flow: flowOf(s), Issuer: o.Issuer,
		ClientID: o.ClientID, ClientSecret: identity.Secret(o.ClientSecret.Reveal()), AuthMethod: o.AuthMethod,
		PrivateKey: identity.Secret(o.PrivateKey.Reveal()), AssertionFile: o.AssertionFile,
		Scopes: o.Scopes, Resource: resourceOf(o.Resource), NoResource: o.Resource == mcpserver.ResourceNone, Audience: o.Audience, Provider: oauth.Provider{
			Issuer: o.Provider.Issuer, ClientID: o.Provider.ClientID, ClientSecret: identity.Secret(o.Provider.ClientSecret.Reveal()), PrivateKey: identity.Secret(o.Provider.PrivateKey.Reveal()),
		}, Params: o.Params, NoDocument: o.Given() && !o.CIMD,
	}, true
}

// resourceOf returns the identifier of a server in the configuration, "" if there is none.
func resourceOf(text string) string {
	if text == mcpserver.ResourceNone {
		return ""
	}
	return text
}

// flowOf returns the flow of the configuration; entries that were not read from a file have none.
func flowOf(s *config.Server) oauth.Flow {
	switch s.OAuth.Flow {
	case mcpserver.OAuthDevice:
		return oauth.FlowDevice
	case mcpserver.OAuthClientCredentials:
		return oauth.FlowClientCredentials
	case mcpserver.OAuthJWTBearer:
		return oauth.FlowJWTBearer
	case mcpserver.OAuthTokenExchange:
		return oauth.FlowTokenExchange
	case mcpserver.OAuthOnBehalfOf:
		return oauth.FlowOnBehalfOf
	case mcpserver.OAuthIDJAG:
		if !s.FromCaller() {
			return oauth.FlowOwnIDJAG
		}
		return oauth.FlowIDJAG
	}
	return oauth.FlowCode
}

// server describes a server of the current configuration.
func (s *SignIns) server(name string) (*oauth.Server, bool) {
	c, ok := s.config().Server(name)
	if !ok {
		return nil, false
	}
	return SignInServer(c)
}

// knownServers are the servers of a configuration, for SignedIn: each request asks it.
type knownServers struct {
	in *config.Config
	of map[string]knownServer
}

// knownServer is a server of the configuration, and as SignInServer describes it, nil if it does not.
type knownServer struct {
	*config.Server
	signIn *oauth.Server // must not be changed
}

// lookup returns a server of the current configuration.
func (s *SignIns) lookup(name string) (knownServer, bool) {
	c, known := s.config(), s.known.Load()
	if known == nil || known.in != c {
		known = &knownServers{c, make(map[string]knownServer, len(c.Servers))}
		for _, server := range c.Servers {
			signIn, _ := SignInServer(server)
			known.of[server.Name] = knownServer{server, signIn}
		}
		s.known.Store(known)
	}
	found, ok := known.of[name]
	return found, ok
}

// SignedIn implements upstream.Credentials.
func (s *SignIns) SignedIn(name, principal string) bool {
	c, ok := s.lookup(name)
	switch {
	case !ok:
		return false
	case c.FromCaller():
		return s.shown.refusal(c.Server, s.shown.get(principal, "")) == nil
	case c.PerPrincipal() && len(c.UserTexts()) > 0:
		return s.texts.all(c.Server, principal)
	}
	return c.signIn != nil && s.client.SignedIn(context.Background(), c.signIn, principal)
}

// Holder implements upstream.Credentials.
func (s *SignIns) Holder(name, after string) string {
	if c, ok := s.config().Server(name); ok && c.FromCaller() {
		return s.shown.next(after, func(id *identity.Identity) bool { return s.shown.refusal(c, id) == nil })
	}
	kind, of := vault.Token, name
	if names := s.textsOf(name); len(names) > 0 {
		kind, of = vault.Text, names[0]
	}
	return s.holders.next(kind, of, after, func(principal string) bool { return s.SignedIn(name, principal) })
}

// textsOf returns the names of the credentials of callers that the configuration of a server has.
func (s *SignIns) textsOf(name string) []string {
	c, ok := s.config().Server(name)
	if !ok || !c.PerPrincipal() {
		return nil
	}
	return c.UserTexts()
}

// Text implements upstream.Credentials.
func (s *SignIns) Text(ctx context.Context, server, name string, of upstream.Owner) (string, error) {
	text, err := s.texts.get(ctx, name, of.Principal)
	if err == nil && text == "" {
		err = s.missing(server, name, of, "")
	}
	return text, err
}

// Shown implements upstream.Credentials.
func (s *SignIns) Shown(ctx context.Context, name string) error {
	c, ok := s.config().Server(name)
	if !ok || !c.FromCaller() {
		return nil
	}
	id := identity.From(ctx)
	if id.Bearer == "" { // a request of the background, such as a subscription
		id = s.shown.get(id.Principal, id.Grant())
	}
	return s.shown.refusal(c, id)
}

// Digest implements upstream.Credentials.
func (s *SignIns) Digest(_ string, of upstream.Owner) (digest [sha256.Size]byte) {
	if id := s.shown.get(of.Principal, of.Grant); id != nil && id.Bearer != "" {
		digest = sha256.Sum256([]byte(id.Bearer))
	}
	return digest
}

// Note keeps the token of a request for servers that take credentials from it, if there are any.
func (s *SignIns) Note(id *identity.Identity) {
	if slices.ContainsFunc(s.config().Servers, (*config.Server).FromCaller) {
		s.shown.note(id)
	}
}

// Forget drops the tokens that callers showed: after a change of who may call, some of them are no
// callers any more.
func (s *SignIns) Forget() {
	s.shown.forget()
	s.traded.Forget()
}

// signInKey is the key of contexts in which a person signs in at a server.
type signInKey struct{}

// withSignIn returns a context in which a person signs in at a server.
func withSignIn(ctx context.Context) context.Context {
	return context.WithValue(ctx, signInKey{}, true)
}

// bySignIn reports whether a credential changes because a person signs in, and not because weir renews it.
func bySignIn(ctx context.Context) bool { return ctx.Value(signInKey{}) != nil }

// missing returns the error of a call without the text that it needs. why says what is wrong with the
// stored one, if there is one. All callers read the error of a connection that only lists, so it does
// not tell whose text that connection has.
func (s *SignIns) missing(server, name string, of upstream.Owner, why string) error {
	command := "weir credentials set " + name
	if s.config().Auth.Required() && of.Principal != oauth.Anonymous && !of.Lists {
		command += " --as " + of.Principal
	}
	return (&oauth.SignInError{Server: server, Command: command, Reason: why, URL: s.page(server)}).Refused()
}

// Over returns a wrapper of transports that adds tokens to what next makes.
func (s *SignIns) Over(next func(string, *mcp.Session, http.RoundTripper) http.RoundTripper) func(string, upstream.Owner, http.RoundTripper) http.RoundTripper {
	return func(name string, of upstream.Owner, base http.RoundTripper) http.RoundTripper {
		base = next(name, of.Session, base)
		if c, ok := s.config().Server(name); ok && len(s.textsOf(name)) > 0 {
			return &textTransport{s, c, of, base}
		}
		if c, ok := s.config().Server(name); ok && c.FromCaller() {
			return s.fromCaller(c, of, base)
		}
		if server, ok := s.server(name); ok {
			return s.client.Transport(server, of.Principal, base)
		}
		return base
	}
}
