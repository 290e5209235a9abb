package config

import (
	"net/url"
	"reflect"
	"strings"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
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

// checkLists checks whose lists callers see.
func checkLists(d *strict.Decoder, s *Server, path string) {
	key := strict.Join(path, "lists")
	switch {
	case s.Lists == "" || s.PerPrincipal():
	case s.Lists == mcpserver.ListsCaller:
		d.Fail(d.At(key), key, "%s: caller needs a credential of each caller, %s.credentials: user or forward, at a server with a url or a command alone, and without agent", key, path)
	default:
		d.Warn(d.At(key), key, "%s has no effect: the server lists the same for all callers without %s.credentials: user or forward", key, path)
	}
}

// reserved are the parameters that weir sets itself.
var reserved = []string{"subject_token", "subject_token_type", "requested_token_type", "requested_token_use", "assertion", "actor_token", "response_type", "client_id", "client_secret", "redirect_uri", "state", "code", "code_challenge", "code_challenge_method", "code_verifier", "grant_type", "scope", "resource", "refresh_token", "nonce"}

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
func checkPerPrincipal(d *strict.Decoder, s *Server, path string) {
	key := strict.Join(path, "credentials")
	switch {
	case s.Credentials == mcpserver.CredentialsForward:
		checkForward(d, s, path)
	case s.Credentials != mcpserver.CredentialsUser:
	case !s.PerPrincipal():
		d.Warn(d.At(key), key, "%s: user has no effect: callers have credentials at servers with a url or a command alone, and without agent", key)
	case len(s.UserTexts()) > 0:
	case s.URL == "":
		d.Fail(d.At(key), key, "%s: user has no effect on a program without a credential of the caller in %s.env, such as TOKEN: \"${user:%s}\"", key, path, s.Name)
	case s.Authorized():
		d.Fail(d.At(key), key, "%s: user and headers.Authorization exclude each other, unless the header has a credential of the caller, such as \"Bearer ${user:%s}\"", key, s.Name)
	case s.OAuth.Flow == mcpserver.OAuthClientCredentials, s.OAuth.Flow == mcpserver.OAuthJWTBearer:
		d.Fail(d.At(key), key, "%s: user and the flow %s exclude each other: in that flow weir signs in as itself", key, s.OAuth.Flow)
	}
}

// checkForward checks a server that gets the tokens of callers.
func checkForward(d *strict.Decoder, s *Server, path string) {
	key := strict.Join(path, "credentials")
	o := s.OAuth
	unnamed := o.Resource == mcpserver.ResourceNone && o.Audience == ""
	o.SetGiven(false)
	o.Resource, o.Audience, o.CIMD = "", "", true
	switch {
	case s.URL == "" || s.Command != "" || s.Agent:
		d.Fail(d.At(key), key, "%s: forward needs a server with a url, without command and agent: the token of a caller never goes to a program", key)
	case s.Authorized():
		d.Fail(d.At(key), key, "%s: forward and headers.Authorization exclude each other: the header has the token of the caller", key)
	case len(s.UserTexts()) > 0:
		d.Fail(d.At(key), key, "%s: forward and ${user:…} exclude each other; write credentials: user for credentials that weir keeps", key)
	case !reflect.DeepEqual(o, mcpserver.OAuth{Flow: o.Flow, CIMD: true}) || o.Flow != "" && o.Flow != mcpserver.OAuthCode:
		d.Fail(d.At(key), key, "%s: forward has no sign-in: of %s.oauth only resource and audience have an effect; remove the other keys", key, path)
	case unnamed:
		d.Fail(d.At(key), key, "%s: forward needs an audience that tokens must name; write %s.oauth.audience in place of resource: none", key, path)
	}
}

// checkResource checks how a server is named to authorization servers.
func checkResource(d *strict.Decoder, s *Server, path string) {
	o := &s.OAuth
	key := strict.Join(strict.Join(path, "oauth"), "resource")
	if o.Resource != "" && o.Resource != mcpserver.ResourceNone {
		if u, err := url.Parse(o.Resource); err != nil || !u.IsAbs() || u.Fragment != "" || strings.Contains(o.Resource, "#") {
			d.Fail(d.At(key), key, "%s must be none, or an absolute URI without a fragment, such as https://mcp.example.com/mcp", key)
		}
	}
	if key := strict.Join(strict.Join(path, "oauth"), "audience"); o.Audience != "" && s.Credentials != mcpserver.CredentialsForward && o.Flow != mcpserver.OAuthTokenExchange {
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
	case !o.Flow.FromCaller():
		if idp != (mcpserver.Provider{}) {
			d.Warn(d.At(strict.Join(d.paths[s], "oauth.idp")), strict.Join(d.paths[s], "oauth.idp"), "%s.oauth.idp has no effect without flow: id_jag", d.paths[s])
		}
	case s.OwnAssertion() && (idp.Issuer == "" || idp.ClientID == "" || o.ClientID == ""):
		fail("flow", "is id_jag with assertion_file, which needs client_id, idp.issuer and idp.client_id")
	case o.Flow == mcpserver.OAuthIDJAG && s.Credentials != mcpserver.CredentialsUser && s.Credentials != mcpserver.CredentialsForward && o.AssertionFile == "":
		fail("flow", "is id_jag, which needs %s.credentials: user, or assertion_file with an ID token of weir's own", d.paths[s])
	case s.Credentials != mcpserver.CredentialsUser && !s.OwnAssertion():
		fail("flow", "is %s, which needs %s.credentials: user: the token of each caller gets one of its own", o.Flow, d.paths[s])
	case o.ClientID == "":
		fail("flow", "is %s, which needs client_id: the issuer has to know weir", o.Flow)
	case o.Flow != mcpserver.OAuthIDJAG && o.Issuer == "":
		fail("flow", "is %s, which needs issuer: the token of a caller goes to an issuer of the configuration alone", o.Flow)
	case o.Flow == mcpserver.OAuthOnBehalfOf && !proof:
		fail("flow", "is on_behalf_of, which needs one of client_secret, private_key and assertion_file")
	case o.Flow == mcpserver.OAuthOnBehalfOf && len(o.Scopes) == 0:
		fail("flow", "is on_behalf_of, which needs scopes: they name the API, such as api://crm/.default")
	case o.Flow == mcpserver.OAuthIDJAG && (idp.Issuer == "" || idp.ClientID == ""):
		fail("flow", "is id_jag, which needs idp.issuer and idp.client_id")
	case idp.ClientSecret != "" && idp.PrivateKey != "":
		fail("idp", "has client_secret and private_key; remove one of them")
	case idp.Issuer != "":
		checkAuthorizationServer(d.Decoder, idp.Issuer, strict.Join(d.paths[s], "oauth.idp.issuer"))
	}
}

// checkAuthorizationServer checks the URL of an authorization server.
func checkAuthorizationServer(d *strict.Decoder, issuer, key string) {
	if u := d.CheckURL(issuer, key); u != nil && (u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "https" && !localIssuer(u)) {
		d.Fail(d.At(key), key, "%s must be the https URL of an authorization server without a query, such as https://login.example.com", key)
	}
}

// checkOAuth checks how weir signs in at a server.
func checkOAuth(d *decoder, s *Server, path string) {
	key := strict.Join(path, "oauth")
	o := &s.OAuth
	if o.SetGiven(d.Set(key)); !o.Given() || d.Bad(key) {
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
	checkResource(d.Decoder, s, path)
	checkFromCaller(d, s, fail)
	o.AssertionFile = d.absolute(o.AssertionFile)
	proofs := 0
	ofClient := []string{o.ClientSecret.Reveal(), o.PrivateKey.Reveal()}
	if !s.OwnAssertion() {
		ofClient = append(ofClient, o.AssertionFile)
	}
	for _, proof := range ofClient {
		if proof != "" {
			proofs++
		}
	}
	if proofs > 1 && (o.Flow != mcpserver.OAuthJWTBearer || o.PrivateKey != "" && o.ClientSecret != "") {
		d.Warn(d.At(key), key, "%s has more than one of assertion_file, private_key and client_secret: the first of them is used", key)
	}
	switch {
	case proofs > 0 && o.ClientID == "":
		fail("", "has a secret of a client and no client_id")
	case o.Flow == mcpserver.OAuthClientCredentials && (o.ClientID == "" || proofs == 0):
		fail("flow", "is client_credentials, which needs client_id and one of client_secret, private_key and assertion_file")
	case o.Flow == mcpserver.OAuthJWTBearer && (o.ClientID == "" || o.AssertionFile == ""):
		fail("flow", "is jwt_bearer, which needs client_id and assertion_file")
	case o.AuthMethod == "private_key_jwt" && o.PrivateKey == "" && o.Flow == mcpserver.OAuthJWTBearer:
		fail("auth_method", "is private_key_jwt, which needs private_key: in the flow jwt_bearer the assertion_file is the grant")
	case o.AuthMethod == "private_key_jwt" && o.PrivateKey == "" && s.OwnAssertion():
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
		checkAuthorizationServer(d.Decoder, o.Issuer, strict.Join(key, "issuer"))
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
