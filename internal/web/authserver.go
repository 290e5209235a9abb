package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/authserver"
	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/signin"
)

// known finds out who calls. Some callers have tokens of the gateway's own authorization server.
type known struct {
	*access.Authenticator
	server *authserver.Server
}

func newKnown(f *Server, g *gateway.Gateway, shared bool) known {
	proofs := callers.Proofs(g.Store, shared)
	server := authserver.New(authserver.Options{
		Docs: cluster.Docs(f.cluster), Key: g.Store.Key(), Logger: f.log, Proofs: proofs, Tell: told(g), Refused: g.Auditor.Refused,
		Ended: func() { f.streams.Recheck() },
		Reserve: func(n int64) (func(), error) {
			room := g.Data.Memory.Hold("", "authorization server")
			err := room.Take(n)
			return room.Release, err
		},
	})
	return known{access.New(access.Options{Logger: f.log, Proofs: proofs}), server}
}

// told returns what tells the audit log of the authorization server.
func told(g *gateway.Gateway) func(ctx context.Context, d authserver.Deed, detail string) {
	return func(ctx context.Context, d authserver.Deed, detail string) {
		kind := audit.Credential
		if d == authserver.SignedIn {
			kind = audit.SignIn
		}
		g.Auditor.Operated(ctx, kind, string(d), "", "", detail)
	}
}

// apply puts the callers of a configuration in force.
func (k known) apply(c *config.Config) {
	p := callers.Server(c)
	if p == nil {
		k.server.Apply(nil)
		k.Authenticator.Apply(callers.Policy(c, nil))
		return
	}
	p.Pages = p.Issuer + signin.CallbackPath
	if c.Auth.Server.People != config.PeopleAccounts {
		p.People = people{k.Authenticator, c.Auth.Login.Issuer, p.Issuer + signin.CallbackPath}
	}
	k.server.Apply(p) // first: the Authenticator asks it for its issuer
	k.Authenticator.Apply(callers.Policy(c, k.server))
}

// Close ends what the callers are looked up with.
func (k known) Close() {
	k.Authenticator.Close()
	k.server.Close()
}

// mount serves the authorization server of a configuration, if it has one.
func (k known) mount(mux *http.ServeMux, f *Server, c *config.Config) {
	if !c.Auth.Server.On() {
		return
	}
	checks := f.guardOptions(c, &config.Auth{})
	hosts := guard.New(checks)
	checks.OwnPages, checks.Origins = true, []string{address.Origin(c.PublicURL)} // a proxy may change the Host
	pages := guard.New(checks).Wrap(k.server)
	for _, path := range authserver.PagePaths {
		mux.Handle(path, pages)
	}
	programs := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := hosts.CheckHost(r); err != nil {
			guard.Refuse(w, r, http.StatusForbidden, err)
			return
		}
		k.server.ServeHTTP(w, r)
	})
	for _, path := range authserver.EndpointPaths {
		mux.Handle(path, programs)
	}
	below := ""
	if u, err := url.Parse(c.PublicURL); err == nil {
		below = strings.TrimSuffix(u.Path, "/")
	}
	for _, path := range []string{authserver.MetadataPath, authserver.OpenIDPath} {
		mux.Handle(path, programs)
		if below != "" {
			mux.Handle(path+below, programs)
		}
	}
	if below != "" {
		mux.Handle(below+authserver.OpenIDPath, programs)
	}
}

// callback takes a browser that comes back from the provider, if the authorization server has sent it there.
func (k known) callback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == signin.CallbackPath && r.Method == http.MethodGet && k.server.Callback(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// accountLogin implements signin.Login for people with accounts.
type accountLogin struct{ known }

// Name implements signin.Login.
func (accountLogin) Name() string { return "your account" }

// Begin implements signin.Login.
func (l accountLogin) Begin(context.Context, string) (address, state string, memo identity.Secret, err error) {
	return l.server.BeginLogin()
}

// Finish implements signin.Login.
func (l accountLogin) Finish(ctx context.Context, memo identity.Secret, query url.Values) (who *identity.Identity, proof identity.Secret, err error) {
	token, err := l.server.FinishLogin(ctx, memo, query)
	if err != nil {
		return nil, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, access.WhoamiPath, nil)
	if err != nil {
		return nil, "", err
	}
	if who, err = l.Authenticate(r, token); err != nil {
		return nil, "", err
	}
	return who.WithoutCredential(), "", nil
}

// End implements signin.Login: each login asks for the password, so nothing else lasts.
func (accountLogin) End(context.Context, identity.Secret, string) string { return "" }

// people implements authserver.People by auth.login.
type people struct {
	callers  *access.Authenticator
	name     string
	callback string
}

// Name implements authserver.People.
func (p people) Name() string { return p.name }

// Begin implements authserver.People.
func (p people) Begin(ctx context.Context, hint string) (address, state string, memo identity.Secret, err error) {
	began, err := p.callers.BeginLogin(ctx, p.callback, access.LoginWish{Hint: hint, Offline: true})
	if err != nil {
		return "", "", "", err
	}
	return began.Address, began.State, began.Memo, nil
}

// Finish implements authserver.People.
func (p people) Finish(ctx context.Context, memo identity.Secret, query map[string][]string) (*authserver.Person, error) {
	in, err := p.callers.FinishLogin(ctx, memo, query)
	if err != nil {
		return nil, err
	}
	return personOf(in), nil
}

// Again implements authserver.People.
func (p people) Again(ctx context.Context, before authserver.Person) (*authserver.Person, error) {
	in, err := p.callers.RenewLogin(ctx, access.LoggedIn{
		Identity: &identity.Identity{Principal: before.Principal, Issuer: before.Issuer}, Refresh: identity.Secret(before.Refresh), Session: before.Session,
	})
	if errors.Is(err, access.ErrLoginEnded) {
		return nil, authserver.ErrGone
	}
	if err != nil {
		return nil, err
	}
	return personOf(in), nil
}

func personOf(in *access.LoggedIn) *authserver.Person {
	issuer, subject, _ := strings.Cut(in.Principal, ":")
	return &authserver.Person{
		Principal: in.Principal, Issuer: issuer, Subject: subject, Groups: in.Groups, GroupsMissing: in.GroupsMissing,
		Refresh: string(in.Refresh), Session: in.Session,
	}
}
