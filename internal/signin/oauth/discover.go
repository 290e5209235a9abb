package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// maxIssuers bounds the authorization servers of a resource that are asked.
const maxIssuers = 5

// resourceMetadata is the document of RFC 9728, as far as a client needs it.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Proofs   []string `json:"dpop_signing_alg_values_supported"`
	Bound    bool     `json:"dpop_bound_access_tokens_required"`
}

// serverMetadata is the document of RFC 8414, as far as a client needs it.
type serverMetadata struct {
	Issuer      string   `json:"issuer"`
	Authorize   string   `json:"authorization_endpoint"`
	Token       string   `json:"token_endpoint"`
	Register    string   `json:"registration_endpoint"`
	Revoke      string   `json:"revocation_endpoint"`
	Device      string   `json:"device_authorization_endpoint"`
	Methods     []string `json:"code_challenge_methods_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	ByDocument  bool     `json:"client_id_metadata_document_supported"`
	NamesIssuer bool     `json:"authorization_response_iss_parameter_supported"`
	Proofs      []string `json:"dpop_signing_alg_values_supported"`
}

// found is the result of discovery for a server.
type found struct {
	serverMetadata
	challenge Challenge
	resource  string   // for the parameter of requests; "" sends none
	scopes    []string // scopes_supported of the resource
	proofs    bool     // the resource takes tokens that are bound to a key
	// configured says that the issuer is of the configuration.
	configured bool
}

// discover finds the authorization server of a server, for the credential id (spec/signin §1).
func (c *Client) discover(ctx context.Context, s *Server, id vault.ID) (*found, *reach, error) {
	r := c.web.reach(s.URL, s.Issuer, s.Provider.Issuer)
	ch, err := c.challenge(ctx, s, id, r)
	if err != nil {
		return nil, nil, err
	}
	f := &found{challenge: ch, resource: canonical(s.URL), configured: s.Issuer != ""}
	issuers := []string{s.Issuer}
	if s.Issuer == "" {
		meta, err := r.offer(ctx, s, ch)
		if err != nil {
			return nil, nil, err
		}
		f.resource, f.scopes = meta.Resource, meta.Scopes
		f.proofs = meta.Bound || slices.Contains(meta.Proofs, dpop.Alg)
		issuers = meta.Servers[:min(len(meta.Servers), maxIssuers)]
	}
	if s.NoResource || s.Resource != "" {
		f.resource = s.Resource
	}
	var failed []error
	for _, issuer := range issuers {
		meta, err := r.issuer(ctx, issuer)
		if err == nil {
			err = usable(s, meta)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("the authorization server %.200s of %q: %w", issuer, s.Name, err))
			continue
		}
		f.serverMetadata = *meta
		if f.configured && !ch.DPoP && slices.Contains(meta.Proofs, dpop.Alg) {
			// The server decides whether proofs serve, and was not asked for its challenge.
			if asked, err := r.ask(ctx, s.URL); err == nil {
				f.challenge.DPoP = asked.DPoP
			}
		}
		return f, r, nil
	}
	return nil, nil, errors.Join(failed...)
}

// bindsTokens reports whether weir asks for tokens that are bound to a key (RFC 9449). An issuer alone does not decide:
// many could, for servers that take no such token.
func (f *found) bindsTokens() bool {
	return slices.Contains(f.serverMetadata.Proofs, dpop.Alg) && (f.proofs || f.challenge.DPoP)
}

// canonical returns the URL of a server without a fragment.
func canonical(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	u.Fragment, u.RawFragment, u.User = "", "", nil
	if u.Path == "/" {
		u.Path = ""
	}
	return u.String()
}

// usable returns why a server's flow cannot be done at an authorization server.
func usable(s *Server, meta *serverMetadata) error {
	switch {
	case meta.Token == "":
		return errors.New("its metadata have no token_endpoint")
	case s.Flow == FlowDevice && meta.Device == "":
		return errors.New("its metadata have no device_authorization_endpoint: use oauth.flow: code")
	case s.Flow == FlowCode && meta.Authorize == "":
		return errors.New("its metadata have no authorization_endpoint")
	case s.Flow == FlowCode && !slices.Contains(meta.Methods, "S256"):
		return errors.New("its metadata do not advertise PKCE with S256 (code_challenge_methods_supported), without which a code can be stolen")
	}
	return nil
}

// offer returns how to sign in at a server: its metadata, or the authorization server at its origin.
// Servers of the MCP revision 2025-03-26 have no metadata and are issuers themselves.
func (r *reach) offer(ctx context.Context, s *Server, ch Challenge) (*resourceMetadata, error) {
	meta, err := r.resource(ctx, s, ch)
	if err == nil || ch.Metadata != "" || !notThere(err) {
		return meta, err
	}
	u, uerr := url.Parse(s.URL)
	if uerr != nil {
		return nil, err
	}
	origin := u.Scheme + "://" + u.Host
	for _, issuer := range []string{origin, origin + "/"} { // their first SDKs add a slash
		_, ierr := r.issuer(ctx, issuer)
		if ierr == nil {
			return &resourceMetadata{Resource: canonical(s.URL), Servers: []string{issuer}}, nil
		}
		if !settled(ierr) {
			err = errors.Join(err, fmt.Errorf("the authorization server %s: %w", issuer, ierr))
		}
	}
	return nil, err
}

// resource reads the metadata of a server.
func (r *reach) resource(ctx context.Context, s *Server, ch Challenge) (*resourceMetadata, error) {
	places := wellKnown(s.URL, "oauth-protected-resource")
	if ch.Metadata != "" {
		places = []string{ch.Metadata}
	}
	var failed []error
	for _, at := range places {
		meta := &resourceMetadata{}
		err := r.get(ctx, at, meta)
		if err == nil {
			err = meta.check(s.URL)
		}
		if err == nil {
			return meta, nil
		}
		err = fmt.Errorf("the metadata of %q at %.300s: %w", s.Name, at, err)
		if !notThere(err) {
			return nil, err
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// notThere reports whether an answer says that there is no such document.
func notThere(err error) bool {
	var status statusError
	return errors.As(err, &status) && status >= 400 && status < 500
}

// errNoServer is the error for metadata that name no authorization server.
var errNoServer = errors.New("they name no authorization server")

// settled reports whether every part of an error says that a server does not tell how to sign in. The
// next answer would be the same. After any other failure it may differ.
func settled(err error) bool {
	switch e := err.(type) {
	case statusError:
		return notThere(e) && e != http.StatusRequestTimeout && e != http.StatusTooManyRequests
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(part error) bool { return !settled(part) })
	case interface{ Unwrap() error }:
		return settled(e.Unwrap())
	}
	return err == errNoServer
}

// check returns the mistake in the metadata of a server.
func (m *resourceMetadata) check(server string) error {
	if len(m.Servers) == 0 {
		return errNoServer
	}
	if !covers(m.Resource, server) {
		return fmt.Errorf("they are of another resource, %.200q", m.Resource)
	}
	return nil
}

// covers reports whether a resource is a server or its parent: of the same origin, with a path that
// starts the server's. A final slash makes no difference.
func covers(resource, server string) bool {
	a, err := url.Parse(resource)
	b, berr := url.Parse(server)
	if err != nil || berr != nil || a.Host == "" || a.Fragment != "" || a.User != nil || !sameOrigin(a, b) {
		return false
	}
	if a.RawQuery != "" && a.RawQuery != b.RawQuery {
		return false
	}
	parent, child := strings.TrimRight(a.EscapedPath(), "/"), strings.TrimRight(b.EscapedPath(), "/")
	return parent == child || strings.HasPrefix(child, parent+"/")
}

func sameOrigin(a, b *url.URL) bool {
	if a.Scheme == b.Scheme && a.Host == b.Host {
		return true
	}
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}

// wellKnown returns where a document of a URL may be: with the URL's path, and at the root.
func wellKnown(of, name string) []string {
	u, err := url.Parse(of)
	if err != nil || u.Host == "" {
		return nil
	}
	origin := u.Scheme + "://" + u.Host
	root := origin + "/.well-known/" + name
	if path := strings.TrimRight(u.EscapedPath(), "/"); path != "" {
		return []string{root + path, root}
	}
	return []string{root}
}

// issuer reads the metadata of an authorization server.
func (r *reach) issuer(ctx context.Context, issuer string) (*serverMetadata, error) {
	places := issuers.Documents(issuer)
	if places == nil {
		return nil, errors.New("it is not the URL of an issuer")
	}
	var failed []error
	for _, at := range places {
		meta := &serverMetadata{}
		err := r.get(ctx, at, meta)
		if err == nil && meta.Issuer != issuer {
			err = fmt.Errorf("they are of the issuer %.200q; both texts have to be the same", meta.Issuer)
		}
		if err == nil {
			return meta, r.checkEndpoints(meta)
		}
		failed = append(failed, fmt.Errorf("the metadata at %.300s: %w", at, err))
	}
	return nil, errors.Join(failed...)
}

// checkEndpoints refuses metadata with endpoints that weir, or a browser, must not be sent to.
func (r *reach) checkEndpoints(meta *serverMetadata) error {
	for _, end := range []struct{ name, at string }{
		{"authorization_endpoint", meta.Authorize}, {"token_endpoint", meta.Token}, {"registration_endpoint", meta.Register},
		{"revocation_endpoint", meta.Revoke}, {"device_authorization_endpoint", meta.Device},
	} {
		if end.at == "" {
			continue
		}
		if err := r.checkPage(end.at); err != nil {
			return fmt.Errorf("its %s: %w", end.name, err)
		}
	}
	return nil
}

// checkPage returns why neither secrets of weir nor a person may be sent to a URL.
func (r *reach) checkPage(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%.300q is not a URL", text)
	}
	return r.zone.Check(u, true)
}

// challenges are the last challenges of servers.
type challenges struct {
	places *bounded.Map[string, string]      // the place of a server's metadata, as a challenge named it
	last   *bounded.Map[vault.ID, Challenge] // the last challenge to a principal
}

func newChallenges(now func() time.Time) *challenges {
	return &challenges{
		places: bounded.New(bounded.Options[string, string]{MaxCount: maxPending, TTL: metadataTime, Now: now}),
		last:   bounded.New(bounded.Options[vault.ID, Challenge]{MaxCount: maxCached, TTL: askedTime, Now: now}),
	}
}

// note keeps a challenge for the sign-in at the credential id, and returns it with the place of the
// metadata: some servers name that only in their first challenge. The place is the same for all
// principals. Scopes and error are of one principal: they are the needs of its call.
func (c *challenges) note(s *Server, id vault.ID, ch Challenge) Challenge {
	if ch.Metadata != "" {
		c.places.Put(s.key(), ch.Metadata, 0)
	} else if at, ok := c.places.Get(s.key()); ok {
		ch.Metadata = at
	}
	c.last.Put(id, ch, 0)
	return ch
}

// challenge returns the last challenge of a server to the principal of a credential, or its
// challenge to a request without a token.
func (c *Client) challenge(ctx context.Context, s *Server, id vault.ID, r *reach) (Challenge, error) {
	if ch, ok := c.asked.last.Get(id); ok || s.Issuer != "" {
		return ch, nil
	}
	ch, err := r.ask(ctx, s.URL)
	if err != nil {
		return Challenge{}, fmt.Errorf("the server %q: %w", s.Name, err)
	}
	return c.asked.note(s, id, ch), nil
}

// tells reports whether a server says how to sign in: in its challenge, or at a well-known place.
func (c *Client) tells(ctx context.Context, s *Server, ch Challenge) bool {
	if ch.Metadata != "" || s.Configured {
		return true
	}
	if ch.Status != http.StatusUnauthorized {
		return false
	}
	if known, ok := c.told.Get(s.key()); ok {
		return known
	}
	_, err := c.web.reach(s.URL).offer(ctx, s, ch)
	if err == nil || settled(err) {
		c.told.Put(s.key(), err == nil, 0) // after another failure the next answer may differ
	}
	return err == nil
}
