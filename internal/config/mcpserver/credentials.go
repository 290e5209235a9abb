package mcpserver

import (
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// CredentialsMode says whose credential weir shows a server: one for all callers, or each caller's own.
type CredentialsMode string

// The modes in which each caller has a credential: one that is kept for it, or the token that it
// shows weir. "shared" is the other mode.
const (
	CredentialsUser    CredentialsMode = "user"
	CredentialsForward CredentialsMode = "forward"
)

// PerPrincipal reports whether each caller has a credential of its own at the server. Agent servers and
// programs at a url have none: weir signs requests to the former, and the latter are one for all.
func (s *Server) PerPrincipal() bool {
	return (s.Credentials == CredentialsUser || s.Forwards()) && !s.Agent && (s.URL == "" || s.Command == "")
}

// ListsMode says whose lists callers see of a server at which each of them has a credential: "caller"
// or "shared".
type ListsMode string

const (
	ListsCaller ListsMode = "caller"
	ListsShared ListsMode = "shared"
)

// ListsPerCaller reports whether each principal sees the server's list for its own credential. That is
// so unless the configuration says otherwise.
func (s *Server) ListsPerCaller() bool {
	return s.PerPrincipal() && s.Lists != ListsShared
}

// Forwards reports whether the server gets the tokens that callers show weir. A program never does.
func (s *Server) Forwards() bool {
	return s.Credentials == CredentialsForward && s.URL != "" && s.Command == "" && !s.Agent
}

// FromCaller reports whether the credential of a caller comes from the token that it shows weir, so
// that nothing is kept of it.
func (s *Server) FromCaller() bool {
	return s.Forwards() || s.OAuth.Flow.FromCaller() && s.URL != "" && s.PerPrincipal()
}

// OwnAssertion reports whether weir shows an identity provider the ID token in AssertionFile. All
// callers share the token that it gets in exchange.
func (s *Server) OwnAssertion() bool {
	return s.OAuth.Flow == OAuthIDJAG && s.OAuth.AssertionFile != "" && s.Credentials != CredentialsUser && s.Credentials != CredentialsForward
}

// Audiences returns the values of which a forwarded token must have one in aud.
func (s *Server) Audiences() (all []string) {
	if r := s.OAuth.Resource; r != "" && r != ResourceNone {
		all = append(all, r)
	}
	if s.OAuth.Audience != "" {
		all = append(all, s.OAuth.Audience)
	}
	if len(all) > 0 {
		return all
	}
	at, _, _ := strings.Cut(s.URL, "#")
	return []string{at}
}

// OAuthFlow is the way to a token.
type OAuthFlow string

// The flows.
const (
	OAuthCode              OAuthFlow = "code"
	OAuthDevice            OAuthFlow = "device"
	OAuthClientCredentials OAuthFlow = "client_credentials"
	OAuthJWTBearer         OAuthFlow = "jwt_bearer"
	OAuthTokenExchange     OAuthFlow = "token_exchange"
	OAuthOnBehalfOf        OAuthFlow = "on_behalf_of"
	OAuthIDJAG             OAuthFlow = "id_jag"
)

// FromCaller reports whether the flow starts with the token that a caller shows weir.
func (f OAuthFlow) FromCaller() bool {
	return f == OAuthTokenExchange || f == OAuthOnBehalfOf || f == OAuthIDJAG
}

// Provider is the identity provider of callers, and who weir is there.
type Provider struct {
	Issuer       string        `key:"issuer" doc:"The identity provider of the callers, which gives weir an identity assertion (ID-JAG) for the token of a caller, or for the ID token in assertion_file."`
	ClientID     string        `key:"client_id" doc:"The client that weir is at the identity provider."`
	ClientSecret strict.Secret `key:"client_secret" doc:"The secret of client_id, best as ${secret:NAME}."`
	PrivateKey   strict.Secret `key:"private_key" doc:"A private key in PEM with which client_id signs assertions, in place of a secret."`
}

// OAuth says how weir signs in at a server. Without it weir follows the server's metadata.
type OAuth struct {
	given bool // the entry has the key

	Flow          OAuthFlow         `key:"flow" enum:"code,device,client_credentials,jwt_bearer,token_exchange,on_behalf_of,id_jag" doc:"Default: code. code: a person at a browser. device: a person with a code at another device. client_credentials: weir by itself, as client_id. jwt_bearer (workload identity): weir by itself, with the JWT of assertion_file as the grant. token_exchange (RFC 8693), on_behalf_of (Entra), id_jag (MCP's enterprise-managed authorization): weir gets a token for the one that the caller shows; they need credentials: user. id_jag without credentials: user: weir by itself, with the ID token in assertion_file."`
	ClientID      string            `key:"client_id" doc:"The client that weir is at the authorization server. Its redirects are PUBLIC_URL/connect/callback for a gateway, and http://127.0.0.1:33419/callback for weir login. People sign in with it only where issuer says whose client it is. Default: weir makes itself known."`
	ClientSecret  strict.Secret     `key:"client_secret" doc:"The secret of client_id, best as ${secret:NAME}."`
	AuthMethod    string            `key:"auth_method" enum:"none,client_secret_basic,client_secret_post,private_key_jwt" doc:"How client_id proves itself. Default: what the authorization server supports."`
	PrivateKey    strict.Secret     `key:"private_key" doc:"A private key in PEM with which client_id signs assertions (private_key_jwt)."`
	AssertionFile string            `key:"assertion_file" doc:"A file with a JWT that the platform renews, in place of a secret; with flow: jwt_bearer, the grant; with flow: id_jag and without credentials: user, the ID token that idp takes. A relative path is relative to this file."`
	Scopes        []string          `key:"scopes" empty:"refused" doc:"Scopes to ask for, unless the server asks for others. Default: those of the server's metadata."`
	Issuer        string            `key:"issuer" doc:"The authorization server. Default: the one that the server names. client_secret, private_key and assertion_file need it: they go there alone. An ID token of id_jag goes to idp.issuer."`
	Resource      string            `key:"resource" doc:"The identifier of the server as a resource (RFC 8707). Default: what the server's metadata say, else url. none: send no parameter resource, for authorization servers that refuse it, such as Entra's."`
	Audience      string            `key:"audience" doc:"With credentials: forward, what aud of a caller's token must have (default: the resource). With flow token_exchange, the parameter audience."`
	Provider      Provider          `key:"idp" doc:"The identity provider for the flow id_jag: that of the callers, or of the ID token in assertion_file."`
	Params        map[string]string `key:"params" doc:"Further parameters of requests to the authorization server, such as audience."`
	CIMD          bool              `key:"cimd" default:"true" doc:"Be known by a metadata document below PUBLIC_URL/oauth/client/, one for each authorization server, if that server reads such documents. Set false if that server cannot reach weir."`
}

// ResourceNone is the value of OAuth.Resource that sends no parameter resource.
const ResourceNone = "none"

// Given reports whether the entry says how to sign in.
func (o OAuth) Given() bool { return o.given }

// SetGiven notes whether the entry says how to sign in.
func (o *OAuth) SetGiven(given bool) { o.given = given }

// Authorized reports whether the entry has an Authorization header of its own.
func (s *Server) Authorized() bool {
	for name := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}
