package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// Places of weir's client metadata documents, below its public URL: one for each issuer, and the one
// that sign-ins of older versions name.
const (
	DocumentsPath = "/oauth/client/"
	DocumentPath  = "/oauth/client.json"
)

// callbackPath is where browsers come back to, at the public URL of a gateway.
const callbackPath = "/connect/callback"

// loopbackCallback is the redirect of `weir login`. Issuers ignore the port of loopback redirects
// (RFC 8252 §7.3).
const loopbackCallback = "http://127.0.0.1/callback"

// usualCallback is the redirect of `weir login` while its usual port is free, for issuers that compare
// the port.
const usualCallback = "http://127.0.0.1:33419/callback"

// software is weir as a client of an authorization server. Its fields stand in registrations and in
// metadata documents (RFC 7591 §2).
type software struct {
	ClientID      string   `json:"client_id,omitempty"`
	Name          string   `json:"client_name"`
	URI           string   `json:"client_uri,omitempty"`
	Redirects     []string `json:"redirect_uris"`
	Grants        []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	Application   string   `json:"application_type"`
	Scope         string   `json:"scope,omitempty"`
}

func describe(redirects []string) software {
	app := "web"
	for _, r := range redirects {
		if u, err := url.Parse(r); err == nil && u.Scheme == "http" && address.Loopback(u.Hostname()) {
			app = "native" // an issuer may refuse such a redirect of a web application
		}
	}
	return software{
		Name: "weir", Redirects: redirects, Grants: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, AuthMethod: methodNone, Application: app,
	}
}

// tailOf returns the path of an issuer below the redirects. Its document has the same name.
func tailOf(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return "/" + hex.EncodeToString(sum[:tailBytes])
}

const tailBytes = 16 // of the hash of an issuer

// documentOf returns the place of the document that is for one issuer.
func documentOf(issuer string) string {
	return DocumentsPath + tailOf(issuer)[1:] + ".json"
}

// Document returns the client metadata document at a path of a gateway with a public URL, as JSON. It
// returns nil if there is none.
func Document(publicURL, path string) []byte {
	tail := ""
	if path != DocumentPath {
		name := strings.TrimSuffix(strings.TrimPrefix(path, DocumentsPath), ".json")
		sum, err := hex.DecodeString(name)
		if err != nil || len(sum) != tailBytes || path != DocumentsPath+hex.EncodeToString(sum)+".json" {
			return nil
		}
		tail = "/" + name
	}
	base := strings.TrimRight(publicURL, "/")
	s := describe([]string{base + callbackPath + tail, loopbackCallback + tail, usualCallback + tail})
	s.ClientID, s.URI = base+path, base
	data, _ := json.Marshal(s) // only texts
	return data
}

// credentials authenticate weir at an authorization server.
type credentials struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Method string `json:"token_endpoint_auth_method,omitempty"`
}

// registration is a dynamic registration, as the vault keeps it.
type registration struct {
	credentials
	Redirects []string  `json:"redirect_uris"`
	Expires   time.Time `json:"expires,omitzero"` // of the secret
}

// The methods by which a client shows who it is.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
)

// bound returns why the configured secret of a client must not be shown to an issuer. An MCP server
// names its issuers itself. Without the bound it could name one of its own and hear the secret.
func (s *Server) bound(issuer string) error {
	switch {
	case s.ClientSecret == "" && s.PrivateKey == "" && (s.AssertionFile == "" || s.Flow == FlowOwnIDJAG), s.Issuer == issuer:
		return nil
	case s.Issuer == "":
		return fmt.Errorf("mcpServers.%s.oauth has the secret of a client, and no oauth.issuer that it is for; if %.200s is right, write oauth.issuer: %[2]q", s.Name, issuer)
	}
	return fmt.Errorf("the sign-in at %q is of the issuer %.200s, and the secret of mcpServers.%s.oauth is for %s alone: sign in again", s.Name, issuer, s.Name, s.Issuer)
}

// configured returns the credentials of the configuration.
func (s *Server) configured(f *found) (credentials, error) {
	if err := s.bound(f.Issuer); err != nil {
		return credentials{}, err
	}
	c := credentials{ID: s.ClientID, Secret: string(s.ClientSecret), Method: s.AuthMethod}
	if c.Method != "" {
		return c, nil
	}
	supports := func(method string) bool { return slices.Contains(f.AuthMethods, method) }
	switch {
	case s.PrivateKey != "" || s.AssertionFile != "" && !s.Flow.usesFile():
		c.Method = methodKey
	case c.Secret == "":
		c.Method = methodNone
	case supports(methodBasic) || len(f.AuthMethods) == 0:
		c.Method = methodBasic
	case supports(methodPost):
		c.Method = methodPost
	default:
		return c, fmt.Errorf("the authorization server %s takes no client secret (%s)", f.Issuer, strings.Join(f.AuthMethods, ", "))
	}
	return c, nil
}

// clientFor returns weir's credentials at the authorization server of a server (spec/signin §2).
func (c *Client) clientFor(ctx context.Context, s *Server, f *found, r *reach, redirect string) (credentials, error) {
	switch {
	case s.ClientID != "":
		return s.configured(f)
	case f.ByDocument && !s.NoDocument && s.Flow == FlowCode && strings.HasPrefix(c.publicURL(), "https://"):
		return credentials{ID: c.publicURL() + documentOf(f.Issuer), Method: methodNone}, nil
	case f.Register != "":
		return c.registered(ctx, f, r, redirect)
	}
	return credentials{}, fmt.Errorf("the authorization server %s takes no registrations: make a client for weir there, and write mcpServers.%s.oauth: {client_id: …}", f.Issuer, s.Name)
}

// registered returns the registration at an issuer that the vault has, or makes one.
func (c *Client) registered(ctx context.Context, f *found, r *reach, redirect string) (credentials, error) {
	id := vault.ID{Kind: vault.Client, Issuer: f.Issuer}
	old, err := c.store.Get(ctx, id)
	if errors.Is(err, vault.ErrClosed) { // no key opens it; weir registers again
		if err = c.store.Delete(ctx, id); err == nil {
			err = vault.ErrMissing
		}
	}
	if err != nil && !errors.Is(err, vault.ErrMissing) {
		return credentials{}, fmt.Errorf("the registration at %s cannot be read: %w", f.Issuer, err)
	}
	var reg registration
	if err == nil && json.Unmarshal(old.Data, &reg) == nil && slices.Contains(reg.Redirects, redirect) && (reg.Expires.IsZero() || c.now().Before(reg.Expires)) {
		return reg.credentials, nil
	}
	redirects := []string{redirect}
	if public := c.publicURL() + callbackPath + tailOf(f.Issuer); c.publicURL() != "" && public != redirect {
		redirects = append(redirects, public)
	}
	reg, err = c.register(ctx, f, r, redirects)
	if err != nil {
		return credentials{}, fmt.Errorf("registering weir at %s: %w", f.Register, err)
	}
	data, err := json.Marshal(reg)
	if err != nil {
		return credentials{}, err
	}
	// If another process registered meanwhile, its registration stays and this one serves this sign-in.
	if err := c.store.Swap(ctx, id, old, vault.Record{Issuer: f.Issuer, Data: data}); err != nil && !errors.Is(err, vault.ErrChanged) {
		return credentials{}, err
	}
	return reg.credentials, nil
}

// register makes a dynamic registration (RFC 7591).
func (c *Client) register(ctx context.Context, f *found, r *reach, redirects []string) (registration, error) {
	want := describe(redirects)
	if f.Device != "" {
		want.Grants = append(want.Grants, deviceGrant)
	}
	if len(f.AuthMethods) > 0 && !slices.Contains(f.AuthMethods, methodNone) {
		want.AuthMethod = methodBasic
		if !slices.Contains(f.AuthMethods, methodBasic) && slices.Contains(f.AuthMethods, methodPost) {
			want.AuthMethod = methodPost
		}
	}
	data, err := json.Marshal(want)
	if err != nil {
		return registration{}, err
	}
	var got struct {
		credentials
		Expires int64 `json:"client_secret_expires_at"`
	}
	if err := r.send(ctx, f.Register, "application/json", data, nil, &got, nil); err != nil {
		return registration{}, err
	}
	if got.ID == "" {
		return registration{}, errors.New("the answer has no client_id")
	}
	reg := registration{credentials: got.credentials, Redirects: redirects}
	if reg.Method == "" {
		reg.Method = want.AuthMethod
	}
	if got.Expires > 0 && reg.Secret != "" {
		reg.Expires = time.Unix(got.Expires, 0)
	}
	return reg, nil
}

// forgetRegistration removes a registration that its issuer does not know any more.
func (c *Client) forgetRegistration(ctx context.Context, issuer, clientID string) {
	id := vault.ID{Kind: vault.Client, Issuer: issuer}
	old, err := c.store.Get(ctx, id)
	var reg registration
	if err == nil && json.Unmarshal(old.Data, &reg) == nil && reg.ID == clientID {
		_ = c.store.Delete(ctx, id) // If it stays, the next sign-in fails as this one did.
	}
}

// show adds a client's credentials to a request for a token. s may have secrets of the configuration,
// which may be newer than cred. They go only to the issuer of the configuration.
func (c *Client) show(s *Server, cred credentials, issuer string, form url.Values) (http.Header, error) {
	header := http.Header{}
	secret := cred.Secret
	if s.ClientID == cred.ID {
		if err := s.bound(issuer); err != nil {
			return nil, err
		}
		if s.ClientSecret != "" {
			secret = string(s.ClientSecret)
		}
	}
	switch cred.Method {
	case methodBasic:
		req := http.Request{Header: header}
		req.SetBasicAuth(url.QueryEscape(cred.ID), url.QueryEscape(secret))
	case methodPost:
		form.Set("client_id", cred.ID)
		form.Set("client_secret", secret)
	case methodKey:
		signed, err := c.assertion(s, cred.ID, issuer)
		if err != nil {
			return nil, err
		}
		form.Set("client_id", cred.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", string(signed))
	default:
		form.Set("client_id", cred.ID)
	}
	return header, nil
}
