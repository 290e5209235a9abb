package authserver

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// register answers registerPath (RFC 7591).
func (x *exchange) register() error {
	if !x.p.Registration {
		return &refusal{http.StatusNotFound, "invalid_request", "this server takes no registrations"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxDocument))
	if err != nil {
		return refused("invalid_client_metadata", "the registration is too long")
	}
	var m clientMetadata
	if err := json.Unmarshal(body, &m); err != nil {
		return refused("invalid_client_metadata", "the registration is not JSON of this kind")
	}
	if why := m.check(); why != "" {
		code := "invalid_client_metadata"
		if strings.Contains(why, "redirect") {
			code = "invalid_redirect_uri"
		}
		return refused(code, why)
	}
	if why := x.p.admitsRedirects(m.Redirects); why != "" {
		return refused("invalid_redirect_uri", why)
	}
	if wait := max(x.tries.take("registration "+sourceOf(x.r), 10, time.Minute), x.tries.take("registrations", 60, 2*time.Second)); wait > 0 {
		return x.tooMany(wait, "there are too many registrations; try again later")
	}
	c := &Client{ID: clientIDPrefix + strings.ToLower(rand.Text()), Name: m.Name, Redirects: m.Redirects, Logouts: m.Logouts, From: registered, Made: x.unix()}
	switch m.Method {
	case "", "none": // RFC 7591 §2 has client_secret_basic as the default; MCP clients that say nothing are public
		c.Method = "none"
	case "client_secret_basic", "client_secret_post":
		c.Method, c.Secret = m.Method, x.secretOf(c.ID)
	case "private_key_jwt":
		if len(m.Keys) == 0 && m.KeysURL == "" {
			return refused("invalid_client_metadata", "private_key_jwt needs jwks or jwks_uri")
		}
		c.Method, c.Keys, c.KeysURL = m.Method, m.Keys, m.KeysURL
	default:
		return refused("invalid_client_metadata", "token_endpoint_auth_method must be one of "+strings.Join(authMethods, ", "))
	}
	if err := x.registered.room(x.r.Context()); err != nil {
		return err
	}
	if err := x.keep(x.r.Context(), clientKey(c.ID), c, 0, unusedTime); err != nil {
		return err
	}
	x.o.Tell(x.r.Context(), Registered, c.ID+" "+c.label()+" "+hostOf(c.Redirects[0]))
	answer := map[string]any{
		"client_id": c.ID, "client_id_issued_at": c.Made, "client_name": c.Name, "redirect_uris": c.Redirects,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": c.Method,
		"scope": strings.Join(append(slices.Clone(x.p.Scopes), scopeOpenID, scopeOffline), " "),
	}
	if c.Secret != "" {
		answer["client_secret"], answer["client_secret_expires_at"] = c.Secret, 0
	}
	if len(c.Logouts) > 0 {
		answer["post_logout_redirect_uris"] = c.Logouts
	}
	x.answer(http.StatusCreated, answer)
	return nil
}
