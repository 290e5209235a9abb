package web

import (
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/web/cards"
)

// guardOptions returns the request checks of a configuration, with authentication if auth has any.
func (f *Server) guardOptions(c *config.Config, auth *config.Auth) guard.Options {
	o := callers.Guard(c, f.log)
	o.Refused, o.Streams = f.gateway.Auditor.Refused, &f.streams
	if auth.Required() {
		o.Authenticate = f.authenticate
	}
	if len(auth.Issuers) > 0 || auth.Server.On() {
		o.Challenge = f.callers.Challenge
	}
	return o
}

// admits returns a function that identifies the caller of a stream, or says why the caller may no longer
// have the stream. It checks the path and the credential of the request by the rules of a guard and a
// configuration.
func admits(g *guard.Guard, auth config.Auth) func(r *http.Request) (*identity.Identity, error) {
	return func(r *http.Request) (*identity.Identity, error) {
		id, err := g.Identify(r)
		if err != nil || !auth.Scoped(id.Principal) {
			return id, err
		}
		if name, ok := passthrough.Name(r.URL); ok && auth.Reaches(id.Principal, name) {
			return id, nil
		}
		return nil, errScoped(id.Principal, r.URL.Path)
	}
}

// authenticate finds out who makes a request, for guard.Options.
func (f *Server) authenticate(r *http.Request, bearer string) (*identity.Identity, error) {
	id, err := f.callers.Authenticate(r, bearer)
	if err == nil {
		f.gateway.SignIns.Note(id)
	}
	return id, err
}

// metadata returns the handler of RFC 9728.
func (f *Server) metadata(c *config.Config) http.Handler {
	return f.toEveryone(c, http.HandlerFunc(f.callers.ServeMetadata))
}

// toEveryone serves a document that pages of every origin may read, without a token. The Host is
// checked as everywhere.
func (f *Server) toEveryone(c *config.Config, document http.Handler) http.Handler {
	hosts := guard.New(callers.Guard(c, f.log))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := hosts.CheckHost(r); err != nil {
			guard.Refuse(w, r, http.StatusForbidden, err)
			return
		}
		document.ServeHTTP(w, r)
	})
}

// mountCards serves the documents that say before a connection what is here, if a configuration wants it.
func (f *Server) mountCards(mux *http.ServeMux, c *config.Config) {
	if !c.Cards {
		return
	}
	byHand := c.Auth.Required() && len(c.Auth.Issuers) == 0 && !c.Auth.Server.On()
	document := f.toEveryone(c, cards.Handler(planeURL(c, f.base), f.gateway.Run.Version, byHand))
	for _, path := range []string{cards.CardPath, cards.WellKnownPath, cards.CatalogPath} {
		mux.Handle(path, document)
	}
}

// serveWhoami tells a caller who it is.
func (f *Server) serveWhoami(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, whoami(identity.From(r.Context())))
}

// Whoami is the answer of /whoami.
type Whoami struct {
	Principal     string     `json:"principal"`
	Issuer        string     `json:"issuer,omitempty"`
	Client        string     `json:"client,omitempty"`
	Groups        []string   `json:"groups,omitempty"`
	Scopes        []string   `json:"scopes,omitempty"`
	Roles         []string   `json:"roles,omitempty"`
	GroupsMissing bool       `json:"groups_missing,omitempty"`
	Expires       *time.Time `json:"expires,omitempty"`
}

func whoami(id *identity.Identity) Whoami {
	w := Whoami{
		Principal: id.Principal, Issuer: id.Issuer, Client: id.Client, Groups: id.Groups, Scopes: id.Scopes, Roles: id.Roles, GroupsMissing: id.GroupsMissing,
	}
	if !id.Expires.IsZero() {
		end := id.Expires.UTC()
		w.Expires = &end
	}
	return w
}
