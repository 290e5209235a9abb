package authserver

import (
	"context"
	"crypto/ecdsa"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/net/httpserver"
)

// New returns a Server. The caller closes it.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tell == nil {
		o.Tell = func(context.Context, Deed, string) {}
	}
	s := &Server{o: o, shelf: &shelf{o.Docs, o.Key, o.Now, o.Logger}, tries: newTries(o.Now)}
	s.keys, s.grants, s.registered = &keyRing{shelf: s.shelf}, newGrants(s.shelf, o.Ended), &registrations{s.shelf}
	s.documents = newDocuments(s.shelf, s.tries, o.Network)
	return s
}

// Apply replaces the policy; nil serves nothing.
func (s *Server) Apply(p *Policy) {
	s.policy.Store(p)
	if p != nil {
		s.grants.ended.follow()
	}
}

// Close ends what the Server follows in the store.
func (s *Server) Close() { s.grants.ended.close() }

// Issuer returns the URL in the iss of tokens, "" if the Server serves nothing.
func (s *Server) Issuer() string {
	if p := s.policy.Load(); p != nil {
		return p.Issuer
	}
	return ""
}

// ServeHTTP serves PagePaths, EndpointPaths and the metadata. The caller has checked the Host, and lets pages of
// other origins at the PagePaths only follow links.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.policy.Load()
	if p == nil {
		http.NotFound(w, r)
		return
	}
	x := &exchange{Server: s, p: p, w: w, r: r}
	path := r.URL.Path
	switch {
	case slices.Contains(PagePaths, path):
		x.servePage(path)
	case strings.HasPrefix(path, MetadataPath), strings.HasSuffix(path, OpenIDPath), strings.HasPrefix(path, OpenIDPath):
		x.program("GET", x.metadata)
	case path == keysPath:
		x.program("GET", x.jwks)
	case path == tokenPath:
		x.program("POST", x.token)
	case path == pushPath:
		x.program("POST", x.push)
	case path == registerPath:
		x.program("POST", x.register)
	case path == revokePath:
		x.program("POST", x.revoke)
	default:
		http.NotFound(w, r)
	}
}

func (x *exchange) servePage(path string) {
	httpserver.Protect(x.w.Header())
	switch {
	case path == authorizePath && x.r.Method == http.MethodGet:
		x.authorize()
	case path == signInPath && x.r.Method == http.MethodPost:
		x.signIn()
	case path == consentPath && x.r.Method == http.MethodPost:
		x.consent()
	case path == logoutPath && (x.r.Method == http.MethodGet || x.r.Method == http.MethodPost):
		x.logout()
	default:
		http.Error(x.w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// program answers a program, which may run in a page of any origin: no cookie counts here.
func (x *exchange) program(method string, serve func() error) {
	h := x.w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case x.r.Method == http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", method)
		h.Set("Access-Control-Allow-Headers", "authorization, content-type, dpop, mcp-protocol-version")
		h.Set("Access-Control-Max-Age", "3600")
		x.w.WriteHeader(http.StatusNoContent)
		return
	case x.r.Method != method && !(method == http.MethodGet && x.r.Method == http.MethodHead):
		h.Set("Allow", method+", OPTIONS")
		http.Error(x.w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	h.Set("Access-Control-Expose-Headers", "DPoP-Nonce, WWW-Authenticate")
	if err := serve(); err != nil {
		x.refuse(err)
	}
}

// Key returns a key that verifies tokens of this Server.
func (s *Server) Key(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	return s.keys.public(ctx, id)
}

// Ended reports whether the grant of an access token has ended.
func (s *Server) Ended(grant string) bool { return grant != "" && s.grants.ended.has(grant) }
