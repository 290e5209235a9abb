package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/signin"
	"github.com/weir-mcp/weir/internal/signin/oauth"
)

// mountSignIns serves the pages on which people sign in at servers. They check who a person is
// themselves, because a browser shows no token. Their forms are for these pages only.
//
// The pages outlive a reload of the configuration, so that a person who is at the provider meanwhile
// comes back to an open sign-in. A change of auth ends sessions, as their persons may have lost rights.
func (f *Server) mountSignIns(mux *http.ServeMux, old, c *config.Config, auth *config.Auth) {
	checks := f.guardOptions(c, &config.Auth{})
	checks.OwnPages, checks.Origins = true, nil
	if origin := address.Origin(c.PublicURL); origin != "" {
		checks.Origins = []string{origin} // a proxy may change the Host
	}
	base := strings.TrimSuffix(strings.TrimSuffix(planeURL(c, f.base), "/"), "/mcp")
	front := signin.Front{Base: base}
	if auth.Required() {
		front.Authenticate = f.callers.Authenticate
	}
	switch {
	case auth.Login.Issuer != "":
		front.Login = browserLogin{f.callers.Authenticator, auth.Login.Issuer, f.log}
	case auth.Server.People == config.PeopleAccounts:
		front.Login = accountLogin{f.callers}
	}
	if front.Login != nil {
		front.SignedOut = f.streams.Recheck
		front.SignedIn = func(ctx context.Context) { f.gateway.Auditor.Operated(ctx, audit.SignIn, "", "", "", "console") }
	}
	if f.signIns == nil {
		f.signIns = signin.New(signin.Options{SignIns: f.gateway.SignIns, Texts: f.gateway.SignIns.Texts(), Front: front, Docs: cluster.Docs(f.cluster)})
		if err := f.signIns.Follow(); err != nil {
			f.log.Error("logouts that the provider tells other nodes are not seen", "err", err)
		}
	}
	f.signIns.Apply(front)
	if old != nil && slices.Contains(config.Diff(old, c).Other, "auth") {
		f.signIns.Forget()
		f.gateway.SignIns.Forget()
	}
	own := guard.New(checks)
	mux.Handle(signin.Path, own.Wrap(f.callers.callback(f.signIns)))
	mux.Handle(signin.LoginPath, own.Wrap(http.HandlerFunc(f.signIns.ServeLogin)))
	if auth.Login.Issuer != "" {
		hosts := guard.New(f.guardOptions(c, &config.Auth{}))
		mux.HandleFunc("POST "+backchannelPath, func(w http.ResponseWriter, r *http.Request) {
			if err := hosts.CheckHost(r); err != nil {
				guard.Refuse(w, r, http.StatusForbidden, err)
				return
			}
			f.backchannel(w, r)
		})
	}
	if c.PublicURL == "" && f.listener != nil && !address.LoopbackAddr(f.listener.Addr()) {
		base = "" // callers on other machines cannot open a page of this one
	}
	f.gateway.SignIns.Serve(base)
}

// loggedIn returns a guard.Options.Login: who has signed in at the console. Requests that pages of
// other origins had a browser send are of no person, also where http.allowed_origins lets such pages
// call. public is the gateway's public_url.
func (f *Server) loggedIn(public string) func(r *http.Request) (*identity.Identity, error) {
	return func(r *http.Request) (*identity.Identity, error) {
		if guard.OwnOrigin(r, public) != nil {
			return nil, nil
		}
		return f.signIns.Person(r)
	}
}

// browserLogin implements signin.Login by auth.login.
type browserLogin struct {
	callers *access.Authenticator
	issuer  string
	log     *slog.Logger
}

// Name implements signin.Login.
func (l browserLogin) Name() string { return l.issuer }

// Begin implements signin.Login.
func (l browserLogin) Begin(ctx context.Context, redirect string) (address, state string, memo identity.Secret, err error) {
	began, err := l.callers.BeginLogin(ctx, redirect, access.LoginWish{})
	if err != nil {
		return "", "", "", err
	}
	return began.Address, began.State, began.Memo, nil
}

// Finish implements signin.Login.
func (l browserLogin) Finish(ctx context.Context, memo identity.Secret, query url.Values) (who *identity.Identity, proof identity.Secret, err error) {
	in, err := l.callers.FinishLogin(ctx, memo, query)
	if err != nil {
		return nil, "", err
	}
	return in.Identity, in.Proof, nil
}

// End implements signin.Login.
func (l browserLogin) End(ctx context.Context, proof identity.Secret, back string) string {
	address, err := l.callers.EndLogin(ctx, proof, back)
	if err != nil {
		l.log.Warn("a person is signed out here and not at the issuer", "issuer", l.issuer, "err", err)
	}
	return address
}

// mountClientDocuments serves the documents by which authorization servers know weir (spec/signin §2).
// They are for everyone, and exist where weir has a public https URL.
func mountClientDocuments(mux *http.ServeMux, open *guard.Guard, publicURL string) {
	if !strings.HasPrefix(publicURL, "https://") {
		return
	}
	serve := open.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document := oauth.Document(publicURL, r.URL.Path)
		if document == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = w.Write(document)
	}))
	mux.Handle("GET "+oauth.DocumentPath, serve)
	mux.Handle("GET "+oauth.DocumentsPath, serve)
}
