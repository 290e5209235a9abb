package authserver

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/access/dpop"
)

// authMethods are the ways in which clients show who they are.
var authMethods = []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"}

// metadata answers MetadataPath (RFC 8414) and OpenIDPath.
func (x *exchange) metadata() error {
	path := ""
	if u, err := url.Parse(x.p.Issuer); err == nil {
		path = u.Path
	}
	if at := x.r.URL.Path; !slices.Contains([]string{MetadataPath, MetadataPath + path, OpenIDPath, OpenIDPath + path, path + OpenIDPath}, strings.TrimSuffix(at, "/")) {
		http.NotFound(x.w, x.r)
		return nil
	}
	at := x.p.Issuer
	grants := []string{"authorization_code", "refresh_token"}
	if slices.ContainsFunc(x.p.Clients, func(c Client) bool { return c.confidential() }) {
		grants = append(grants, "client_credentials")
	}
	document := map[string]any{
		"issuer": at, "authorization_endpoint": at + authorizePath, "token_endpoint": at + tokenPath, "jwks_uri": at + keysPath,
		"revocation_endpoint": at + revokePath, "end_session_endpoint": at + logoutPath,
		"pushed_authorization_request_endpoint":            at + pushPath,
		"scopes_supported":                                 append(slices.Clone(x.p.Scopes), scopeOpenID, scopeOffline),
		"response_types_supported":                         []string{"code"},
		"response_modes_supported":                         []string{"query"},
		"grant_types_supported":                            grants,
		"token_endpoint_auth_methods_supported":            authMethods,
		"revocation_endpoint_auth_methods_supported":       authMethods,
		"token_endpoint_auth_signing_alg_values_supported": dpop.Algorithms(),
		"code_challenge_methods_supported":                 []string{"S256"},
		"authorization_response_iss_parameter_supported":   true,
		"client_id_metadata_document_supported":            x.p.Documents,
		"subject_types_supported":                          []string{"public"},
		"id_token_signing_alg_values_supported":            []string{"ES256"},
		"claims_supported":                                 []string{"sub", "iss", "aud", "exp", "iat", "nonce", "auth_time", "sid", "groups"},
		"prompt_values_supported":                          []string{"consent", "login", "none"},
		"protected_resources":                              []string{at, at + "/mcp"},
		"request_parameter_supported":                      false,
		"request_uri_parameter_supported":                  false,
	}
	if x.p.Registration {
		document["registration_endpoint"] = at + registerPath
	}
	if x.o.Proofs != nil {
		document["dpop_signing_alg_values_supported"] = dpop.Algorithms()
	}
	x.w.Header().Set("Cache-Control", "public, max-age=300")
	x.answer(http.StatusOK, document)
	return nil
}

// jwks answers keysPath.
func (x *exchange) jwks() error {
	all, err := x.keys.current(x.r.Context())
	if err != nil {
		return err
	}
	set := []map[string]string{}
	for _, one := range all {
		point, err := one.private.PublicKey.Bytes()
		if err != nil {
			return err
		}
		set = append(set, map[string]string{
			"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": one.ID,
			"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
		})
	}
	x.w.Header().Set("Cache-Control", "public, max-age=300")
	x.answer(http.StatusOK, map[string]any{"keys": set})
	return nil
}
