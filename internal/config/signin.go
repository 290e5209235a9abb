package config

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
)

// StoreMemory is the value of SignIns.Store that keeps sign-ins as long as the process.
const StoreMemory = "memory"

// SignIns says where sign-ins are kept (spec/signin §6).
type SignIns struct {
	Store string   `key:"store" doc:"memory (sign-ins end with weir), or file:FOLDER, sealed, which processes may share. A relative folder is relative to this file. Default: weir's state folder for a gateway of one person (a loopback address, no auth.tokens, no auth.issuers), else memory."`
	Keys  []Secret `key:"keys" empty:"refused" doc:"Keys that seal the files: random texts of at least 16 bytes, best as ${secret:NAME} or ${VAR}. The first one seals, and every one opens; weir credentials rekey seals all with the first."`
}

// Folder returns the folder of the store, or "" if there is none.
func (c SignIns) Folder() string {
	folder, _ := strings.CutPrefix(c.Store, "file:")
	if c.Store == folder {
		return ""
	}
	return folder
}

// CredentialsMode says whose credential weir shows a server: one for all callers, or each caller's own.
type CredentialsMode string

// The modes in which each caller has a credential: one that is kept for it, or the token that it
// shows weir. "shared" is the other mode.
const (
	credentialsUser    CredentialsMode = "user"
	credentialsForward CredentialsMode = "forward"
)

// PerPrincipal reports whether each caller has a credential of its own at the server. Agent servers and
// programs at a url have none: weir signs requests to the former, and the latter are one for all.
func (s *Server) PerPrincipal() bool {
	return (s.Credentials == credentialsUser || s.Forwards()) && !s.Agent && (s.URL == "" || s.Command == "")
}

// ListsMode says whose lists callers see of a server at which each of them has a credential: "caller"
// or "shared".
type ListsMode string

const (
	listsCaller ListsMode = "caller"
	listsShared ListsMode = "shared"
)

// ListsPerCaller reports whether each principal sees the server's list for its own credential. That is
// so unless the configuration says otherwise.
func (s *Server) ListsPerCaller() bool {
	return s.PerPrincipal() && s.Lists != listsShared
}

// checkLists checks whose lists callers see.
func checkLists(d *decoder, s *Server, path string) {
	key := strict.Join(path, "lists")
	switch {
	case s.Lists == "" || s.PerPrincipal():
	case s.Lists == listsCaller:
		d.Fail(d.At(key), key, "%s: caller needs a credential of each caller, %s.credentials: user or forward, at a server with a url or a command alone, and without agent", key, path)
	default:
		d.Warn(d.At(key), key, "%s has no effect: the server lists the same for all callers without %s.credentials: user or forward", key, path)
	}
}

// Forwards reports whether the server gets the tokens that callers show weir. A program never does.
func (s *Server) Forwards() bool {
	return s.Credentials == credentialsForward && s.URL != "" && s.Command == "" && !s.Agent
}

// FromCaller reports whether the credential of a caller comes from the token that it shows weir, so
// that nothing is kept of it.
func (s *Server) FromCaller() bool {
	return s.Forwards() || s.OAuth.Flow.fromCaller() && s.URL != "" && s.PerPrincipal()
}

// ownAssertion reports whether weir shows an identity provider the ID token in AssertionFile. All
// callers share the token that it gets in exchange.
func (s *Server) ownAssertion() bool {
	return s.OAuth.Flow == OAuthIDJAG && s.OAuth.AssertionFile != "" && s.Credentials != credentialsUser && s.Credentials != credentialsForward
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

// fromCaller reports whether the flow starts with the token that a caller shows weir.
func (f OAuthFlow) fromCaller() bool {
	return f == OAuthTokenExchange || f == OAuthOnBehalfOf || f == OAuthIDJAG
}

// Provider is the identity provider of callers, and who weir is there.
type Provider struct {
	Issuer       string `key:"issuer" doc:"The identity provider of the callers, which gives weir an identity assertion (ID-JAG) for the token of a caller, or for the ID token in assertion_file."`
	ClientID     string `key:"client_id" doc:"The client that weir is at the identity provider."`
	ClientSecret Secret `key:"client_secret" doc:"The secret of client_id, best as ${secret:NAME}."`
	PrivateKey   Secret `key:"private_key" doc:"A private key in PEM with which client_id signs assertions, in place of a secret."`
}

// OAuth says how weir signs in at a server. Without it weir follows the server's metadata.
type OAuth struct {
	given bool // the entry has the key

	Flow          OAuthFlow         `key:"flow" enum:"code,device,client_credentials,jwt_bearer,token_exchange,on_behalf_of,id_jag" doc:"Default: code. code: a person at a browser. device: a person with a code at another device. client_credentials: weir by itself, as client_id. jwt_bearer (workload identity): weir by itself, with the JWT of assertion_file as the grant. token_exchange (RFC 8693), on_behalf_of (Entra), id_jag (MCP's enterprise-managed authorization): weir gets a token for the one that the caller shows; they need credentials: user. id_jag without credentials: user: weir by itself, with the ID token in assertion_file."`
	ClientID      string            `key:"client_id" doc:"The client that weir is at the authorization server. Its redirects are PUBLIC_URL/connect/callback for a gateway, and http://127.0.0.1:33419/callback for weir login. People sign in with it only where issuer says whose client it is. Default: weir makes itself known."`
	ClientSecret  Secret            `key:"client_secret" doc:"The secret of client_id, best as ${secret:NAME}."`
	AuthMethod    string            `key:"auth_method" enum:"none,client_secret_basic,client_secret_post,private_key_jwt" doc:"How client_id proves itself. Default: what the authorization server supports."`
	PrivateKey    Secret            `key:"private_key" doc:"A private key in PEM with which client_id signs assertions (private_key_jwt)."`
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

// reserved are the parameters that weir sets itself.
var reserved = []string{"subject_token", "subject_token_type", "requested_token_type", "requested_token_use", "assertion", "actor_token", "response_type", "client_id", "client_secret", "redirect_uri", "state", "code", "code_challenge", "code_challenge_method", "code_verifier", "grant_type", "scope", "resource", "refresh_token", "nonce"}

// Authorized reports whether the entry has an Authorization header of its own.
func (s *Server) Authorized() bool {
	for name := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}

// checkCredentials checks where sign-ins are kept.
func checkCredentials(d *decoder, c *Config) {
	const key = "credentials.store"
	k := &c.SignIns
	switch folder := k.Folder(); {
	case k.Store == "" || k.Store == StoreMemory:
		if len(k.Keys) > 0 && k.Store == StoreMemory {
			d.Fail(d.At("credentials.keys"), "credentials.keys", "credentials.keys has no effect with credentials.store: memory; remove one of them")
		}
	case folder == "":
		d.Fail(d.At(key), key, "%s must be memory or file:FOLDER, not %q", key, strict.Clip(k.Store))
	case len(k.Keys) == 0 && !d.Set("credentials.keys"):
		d.Fail(d.At(key), key, "%s is a folder and credentials.keys has no key to seal its files; make one with: openssl rand -base64 32 | weir secret set CREDENTIALS_KEY --stdin, and write credentials.keys: [\"${secret:CREDENTIALS_KEY}\"]", key)
	default:
		k.Store = "file:" + d.absolute(folder)
	}
	if k.Store == "" && len(k.Keys) > 0 {
		d.Fail(d.At("credentials.keys"), "credentials.keys", "credentials.keys needs credentials.store: file:FOLDER")
	}
	for i, text := range k.Keys {
		if len(text.Reveal()) < 16 {
			d.Fail(d.At("credentials.keys"), "credentials.keys", "credentials.keys[%d] has fewer than 16 bytes; make one with: openssl rand -base64 32", i)
		}
	}
}

// checkPerPrincipal checks whose credential weir shows a server.
func checkPerPrincipal(d *decoder, s *Server, path string) {
	key := strict.Join(path, "credentials")
	switch {
	case s.Credentials == credentialsForward:
		checkForward(d, s, path)
	case s.Credentials != credentialsUser:
	case !s.PerPrincipal():
		d.Warn(d.At(key), key, "%s: user has no effect: callers have credentials at servers with a url or a command alone, and without agent", key)
	case len(s.UserTexts()) > 0:
	case s.URL == "":
		d.Fail(d.At(key), key, "%s: user has no effect on a program without a credential of the caller in %s.env, such as TOKEN: \"${user:%s}\"", key, path, s.Name)
	case s.Authorized():
		d.Fail(d.At(key), key, "%s: user and headers.Authorization exclude each other, unless the header has a credential of the caller, such as \"Bearer ${user:%s}\"", key, s.Name)
	case s.OAuth.Flow == OAuthClientCredentials, s.OAuth.Flow == OAuthJWTBearer:
		d.Fail(d.At(key), key, "%s: user and the flow %s exclude each other: in that flow weir signs in as itself", key, s.OAuth.Flow)
	}
}

// checkForward checks a server that gets the tokens of callers.
func checkForward(d *decoder, s *Server, path string) {
	key := strict.Join(path, "credentials")
	o := s.OAuth
	unnamed := o.Resource == ResourceNone && o.Audience == ""
	o.given, o.Resource, o.Audience, o.CIMD = false, "", "", true
	switch {
	case s.URL == "" || s.Command != "" || s.Agent:
		d.Fail(d.At(key), key, "%s: forward needs a server with a url, without command and agent: the token of a caller never goes to a program", key)
	case s.Authorized():
		d.Fail(d.At(key), key, "%s: forward and headers.Authorization exclude each other: the header has the token of the caller", key)
	case len(s.UserTexts()) > 0:
		d.Fail(d.At(key), key, "%s: forward and ${user:…} exclude each other; write credentials: user for credentials that weir keeps", key)
	case !reflect.DeepEqual(o, OAuth{Flow: o.Flow, CIMD: true}) || o.Flow != "" && o.Flow != OAuthCode:
		d.Fail(d.At(key), key, "%s: forward has no sign-in: of %s.oauth only resource and audience have an effect; remove the other keys", key, path)
	case unnamed:
		d.Fail(d.At(key), key, "%s: forward needs an audience that tokens must name; write %s.oauth.audience in place of resource: none", key, path)
	}
}

// checkResource checks how a server is named to authorization servers.
func checkResource(d *decoder, s *Server, path string) {
	o := &s.OAuth
	key := strict.Join(strict.Join(path, "oauth"), "resource")
	if o.Resource != "" && o.Resource != ResourceNone {
		if u, err := url.Parse(o.Resource); err != nil || !u.IsAbs() || u.Fragment != "" || strings.Contains(o.Resource, "#") {
			d.Fail(d.At(key), key, "%s must be none, or an absolute URI without a fragment, such as https://mcp.example.com/mcp", key)
		}
	}
	if key := strict.Join(strict.Join(path, "oauth"), "audience"); o.Audience != "" && s.Credentials != credentialsForward && o.Flow != OAuthTokenExchange {
		d.Warn(d.At(key), key, "%s has no effect without credentials: forward or the flow token_exchange; write params: {audience: …} for authorization servers that want it", key)
	}
}

// checkForwarding checks that there are callers whose tokens can be forwarded. Static tokens and
// certificates never are.
func checkForwarding(d *decoder, c *Config) {
	for _, s := range c.Servers {
		if !s.FromCaller() || s.Disabled || len(c.Auth.Issuers) > 0 {
			continue
		}
		path := d.paths[s]
		d.Within(path, func() {
			d.Fail(d.At(path), path, "%s gets credentials from the tokens of callers, and auth.issuers has no issuer of such tokens; static tokens and certificates are never forwarded", path)
		})
	}
}

// checkFromCaller checks the flows that start with the token of a caller. That token goes only to an
// issuer of the configuration, never to one that the server names.
func checkFromCaller(d *decoder, s *Server, fail func(part, format string, args ...any)) {
	o := &s.OAuth
	proof := o.ClientSecret != "" || o.PrivateKey != "" || o.AssertionFile != ""
	idp := o.Provider
	switch {
	case !o.Flow.fromCaller():
		if idp != (Provider{}) {
			d.Warn(d.At(strict.Join(d.paths[s], "oauth.idp")), strict.Join(d.paths[s], "oauth.idp"), "%s.oauth.idp has no effect without flow: id_jag", d.paths[s])
		}
	case s.ownAssertion() && (idp.Issuer == "" || idp.ClientID == "" || o.ClientID == ""):
		fail("flow", "is id_jag with assertion_file, which needs client_id, idp.issuer and idp.client_id")
	case o.Flow == OAuthIDJAG && s.Credentials != credentialsUser && s.Credentials != credentialsForward && o.AssertionFile == "":
		fail("flow", "is id_jag, which needs %s.credentials: user, or assertion_file with an ID token of weir's own", d.paths[s])
	case s.Credentials != credentialsUser && !s.ownAssertion():
		fail("flow", "is %s, which needs %s.credentials: user: the token of each caller gets one of its own", o.Flow, d.paths[s])
	case o.ClientID == "":
		fail("flow", "is %s, which needs client_id: the issuer has to know weir", o.Flow)
	case o.Flow != OAuthIDJAG && o.Issuer == "":
		fail("flow", "is %s, which needs issuer: the token of a caller goes to an issuer of the configuration alone", o.Flow)
	case o.Flow == OAuthOnBehalfOf && !proof:
		fail("flow", "is on_behalf_of, which needs one of client_secret, private_key and assertion_file")
	case o.Flow == OAuthOnBehalfOf && len(o.Scopes) == 0:
		fail("flow", "is on_behalf_of, which needs scopes: they name the API, such as api://crm/.default")
	case o.Flow == OAuthIDJAG && (idp.Issuer == "" || idp.ClientID == ""):
		fail("flow", "is id_jag, which needs idp.issuer and idp.client_id")
	case idp.ClientSecret != "" && idp.PrivateKey != "":
		fail("idp", "has client_secret and private_key; remove one of them")
	case idp.Issuer != "":
		checkAuthorizationServer(d, idp.Issuer, strict.Join(d.paths[s], "oauth.idp.issuer"))
	}
}

// checkAuthorizationServer checks the URL of an authorization server.
func checkAuthorizationServer(d *decoder, issuer, key string) {
	if u := d.checkURL(issuer, key); u != nil && (u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "https" && !localIssuer(u)) {
		d.Fail(d.At(key), key, "%s must be the https URL of an authorization server without a query, such as https://login.example.com", key)
	}
}

// checkOAuth checks how weir signs in at a server.
func checkOAuth(d *decoder, s *Server, path string) {
	key := strict.Join(path, "oauth")
	o := &s.OAuth
	if o.given = d.Set(key); !o.given || d.Bad(key) {
		return
	}
	fail := func(part, format string, args ...any) {
		at := key
		if part != "" {
			at = strict.Join(key, part)
		}
		d.Fail(d.At(at), at, "%s "+format, append([]any{at}, args...)...)
	}
	switch {
	case s.URL == "" || s.Command != "" || s.Agent:
		d.Warn(d.At(key), key, "%s has no effect: weir signs in at servers that it reaches by url alone, without command and agent", key)
	case s.Authorized():
		fail("", "and headers.Authorization exclude each other; remove one of them")
	}
	checkResource(d, s, path)
	checkFromCaller(d, s, fail)
	o.AssertionFile = d.absolute(o.AssertionFile)
	proofs := 0
	ofClient := []string{o.ClientSecret.Reveal(), o.PrivateKey.Reveal()}
	if !s.ownAssertion() {
		ofClient = append(ofClient, o.AssertionFile)
	}
	for _, proof := range ofClient {
		if proof != "" {
			proofs++
		}
	}
	if proofs > 1 && (o.Flow != OAuthJWTBearer || o.PrivateKey != "" && o.ClientSecret != "") {
		d.Warn(d.At(key), key, "%s has more than one of assertion_file, private_key and client_secret: the first of them is used", key)
	}
	switch {
	case proofs > 0 && o.ClientID == "":
		fail("", "has a secret of a client and no client_id")
	case o.Flow == OAuthClientCredentials && (o.ClientID == "" || proofs == 0):
		fail("flow", "is client_credentials, which needs client_id and one of client_secret, private_key and assertion_file")
	case o.Flow == OAuthJWTBearer && (o.ClientID == "" || o.AssertionFile == ""):
		fail("flow", "is jwt_bearer, which needs client_id and assertion_file")
	case o.AuthMethod == "private_key_jwt" && o.PrivateKey == "" && o.Flow == OAuthJWTBearer:
		fail("auth_method", "is private_key_jwt, which needs private_key: in the flow jwt_bearer the assertion_file is the grant")
	case o.AuthMethod == "private_key_jwt" && o.PrivateKey == "" && s.ownAssertion():
		fail("auth_method", "is private_key_jwt, which needs private_key: in the flow id_jag the assertion_file is the ID token")
	case o.AuthMethod == "private_key_jwt" && o.PrivateKey == "" && o.AssertionFile == "":
		fail("auth_method", "is private_key_jwt, which needs private_key or assertion_file")
	case strings.HasPrefix(o.AuthMethod, "client_secret_") && o.ClientSecret == "":
		fail("auth_method", "is %s, which needs client_secret", o.AuthMethod)
	}
	if proofs > 0 && o.ClientID != "" && o.Issuer == "" {
		fail("", "has the secret of a client and no issuer, the authorization server that it goes to; write its URL, such as issuer: https://login.example.com")
	}
	if o.Issuer != "" {
		checkAuthorizationServer(d, o.Issuer, strict.Join(key, "issuer"))
	}
	for name := range o.Params {
		for _, own := range reserved {
			if name == own {
				fail("params", "may not have %s, which weir sets itself", name)
			}
		}
	}
}

// localIssuer reports whether an issuer is on this machine, where http will do.
func localIssuer(u *url.URL) bool { return u.Scheme == "http" && address.Loopback(u.Hostname()) }
