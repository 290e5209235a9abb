package authserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/egress"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
)

// Scopes that every client may ask for.
const (
	scopeOpenID  = "openid"
	scopeOffline = "offline_access"
)

// A Person is who has signed in.
type Person struct {
	// Principal is who the person is to the gateway, such as corp:8a7f. Issuer is the part before the colon, and
	// Subject the part after it.
	Principal, Issuer, Subject string
	Groups                     []string
	// GroupsMissing says that the provider has more groups of the person than it wrote down.
	GroupsMissing bool
	// Refresh is the provider's refresh token, with which the person is looked up again; "" if there is none.
	Refresh string
	// Session is the provider's name of the person's session there (sid), "" if it has none.
	Session string
}

// ErrGone says that the provider does not know the person any more.
var ErrGone = errors.New("the provider does not know the person any more")

// People is the provider where people sign in. Its methods are called concurrently.
type People interface {
	// Name is the provider's name, for the page.
	Name() string
	// Begin returns the URL to send a browser to, the state with which it comes back, and the facts that Finish
	// needs. hint is the login_hint of the client, "" if it gave none.
	Begin(ctx context.Context, hint string) (address, state string, memo identity.Secret, err error)
	// Finish ends a sign-in with the query with which the browser came back. The error is shown to the person.
	Finish(ctx context.Context, memo identity.Secret, query map[string][]string) (*Person, error)
	// Again looks a person up by the refresh token. The error is ErrGone if the provider refuses, and another one
	// if it cannot be asked.
	Again(ctx context.Context, p Person) (*Person, error)
}

// Policy says who may get tokens. Apply copies nothing of it; do not change it afterwards.
type Policy struct {
	// Issuer is the URL of the gateway without a final slash.
	Issuer string
	// People is where people sign in; nil: with an Account.
	People   People
	Accounts []Account
	Clients  []Client // known by configuration
	// Documents admits clients that are known by the URL of their metadata document, and Registration those that
	// register themselves. RegistrationHosts, if not empty, are the only hosts of their redirects.
	Documents, Registration bool
	RegistrationHosts       []string
	// Scopes are granted in addition to openid and offline_access, and all of them if a client asks for none.
	Scopes        []string
	AccessTime    time.Duration
	RefreshTime   time.Duration
	AlwaysConsent bool
	// Pages is where browsers come back to the gateway's own pages.
	Pages string
	// Bound refuses requests for tokens without a DPoP proof, and Nonces asks for a nonce in each proof.
	Bound, Nonces bool
	// Resource returns the audience that a URL of a resource stands for. It reports false for another's resource.
	Resource func(address string) (audience string, ok bool)
}

// A Deed is something that the audit log is told of.
type Deed string

// The deeds.
const (
	SignedIn   Deed = "signed in"
	Consented  Deed = "consented"
	Denied     Deed = "denied"
	Registered Deed = "registered"
	Issued     Deed = "issued"
	Renewed    Deed = "renewed"
	Revoked    Deed = "revoked"
	LoggedOut  Deed = "logged out"
	Reused     Deed = "reused"
)

// Options configure a Server.
type Options struct {
	Docs store.Docs
	Key  *seal.Key
	// Network fetches what clients name. The zero Network is the system's.
	Network egress.Network
	// Proofs checks DPoP proofs. Nil binds no tokens to keys, and refuses requests with a proof.
	Proofs *dpop.Verifier
	// Reserve takes memory for one check of a password; nil takes none.
	Reserve func(n int64) (release func(), err error)
	// Tell is told of what has happened; ctx has the identity of the person or client. It may be nil.
	Tell func(ctx context.Context, d Deed, detail string)
	// Refused is told of each request that is refused. It may be nil.
	Refused func(r *http.Request, status int, err error)
	// Ended is called when grants have ended, on each node. It must not block. It may be nil.
	Ended  func()
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger
}

// admitsRedirects returns why redirects do not lead to an admitted host, "" if they are.
func (p *Policy) admitsRedirects(redirects []string) string {
	if len(p.RegistrationHosts) == 0 {
		return ""
	}
	for _, redirect := range redirects {
		u, err := url.Parse(redirect)
		if err != nil {
			return "a redirect is not a URL"
		}
		host := u.Hostname()
		switch {
		case loopback(u):
			host = "localhost"
		case u.Scheme != "https":
			host = u.Scheme
		}
		if !slices.Contains(p.RegistrationHosts, strings.ToLower(host)) {
			return "a redirect leads to a host that auth.server.clients.dcr.hosts does not name"
		}
	}
	return ""
}

// audience returns the audience of the one resource that a request names (RFC 8707).
func (p *Policy) audience(resources []string) (string, error) {
	if len(resources) != 1 {
		return "", refused("invalid_target", "resource must be there once: the URL of the MCP server, such as "+p.Issuer+"/mcp")
	}
	audience, ok := p.Resource(resources[0])
	if !ok {
		return "", refused("invalid_target", "resource is not a URL of this gateway; take the one of its protected-resource metadata")
	}
	return audience, nil
}

// scopes returns the scopes that a client gets of those it asks for. Unknown ones are left out, and the answer says
// which were granted (RFC 6749 §3.3).
func (p *Policy) scopes(c *Client, asked string) ([]string, error) {
	may := func(scope string) bool {
		return slices.Contains(p.Scopes, scope) && (len(c.Scopes) == 0 || slices.Contains(c.Scopes, scope))
	}
	var granted []string
	for _, scope := range strings.Fields(asked) {
		if (scope == scopeOpenID || scope == scopeOffline || may(scope)) && !slices.Contains(granted, scope) {
			granted = append(granted, scope)
		}
	}
	if !slices.ContainsFunc(granted, may) {
		for _, scope := range p.Scopes {
			if may(scope) {
				granted = append(granted, scope)
			}
		}
	}
	if len(granted) == 0 {
		return nil, refused("invalid_scope", "the client may get none of the scopes of this server")
	}
	slices.Sort(granted)
	return granted, nil
}

// secure reports whether browsers reach the pages over TLS.
func (p *Policy) secure() bool { return strings.HasPrefix(p.Issuer, "https://") }

// account finds an account by its name.
func (p *Policy) account(name string) *Account {
	for i := range p.Accounts {
		if p.Accounts[i].Name == name {
			return &p.Accounts[i]
		}
	}
	return nil
}

// resourceName says in words what a token opens.
func (p *Policy) resourceName(audience string) string {
	path := strings.TrimPrefix(audience, p.Issuer)
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 1:
		return "all servers of this gateway that you may use"
	case parts[0] == "mcp" && len(parts) == 2:
		return "the profile " + parts[1] + " of this gateway"
	}
	return "the server " + parts[1] + " of this gateway"
}

// identity returns who a person is.
func (p *Person) identity(client string) *identity.Identity {
	groups := slices.Clone(p.Groups)
	slices.Sort(groups)
	return &identity.Identity{Principal: p.Principal, Issuer: p.Issuer, Client: client, Groups: slices.Compact(groups), GroupsMissing: p.GroupsMissing}
}
