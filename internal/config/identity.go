package config

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text/lazy"
)

// Issuer is an authorization server whose tokens weir accepts.
type Issuer struct {
	// Name is the key in auth.issuers. It is the prefix of the principals of the issuer's tokens.
	Name          string
	Issuer        string            `key:"issuer" doc:"The issuer's URL, exactly as its tokens write it in iss. Its metadata (RFC 8414 or OpenID Connect) names its keys."`
	JWKS          string            `key:"jwks" doc:"URL of the issuer's keys, where its metadata is not to be asked."`
	Audiences     []string          `key:"audiences" empty:"same" doc:"Values of aud that are accepted in addition to public_url and the URLs below it, such as api://weir."`
	Subject       string            `key:"subject" default:"sub" doc:"The claim that names the user. It must never be given to another user; email is accepted only with email_verified."`
	Groups        string            `key:"groups" default:"groups" doc:"The claim with the groups, or a path to it such as realm_access.roles."`
	Require       map[string]string `key:"require" doc:"Claims, or paths to them, with the value that each must have or contain, such as tid."`
	Scopes        []string          `key:"scopes" empty:"same" doc:"Scopes that every token needs. Without one the answer is 403 insufficient_scope."`
	Introspection Introspection     `key:"introspection" doc:"An endpoint of RFC 7662 that is asked about tokens that are no JWTs."`
}

// Introspection is an endpoint that knows opaque tokens.
type Introspection struct {
	URL          string `key:"url" doc:"The endpoint's URL."`
	Prefix       string `key:"prefix" doc:"How the issuer's opaque tokens begin, such as oat_. It is asked about no others. All issuers with an introspection but one need a prefix, and the longest that fits picks the issuer."`
	ClientID     string `key:"client_id" doc:"weir's name at the issuer."`
	ClientSecret Secret `key:"client_secret" doc:"weir's secret at the issuer, best as ${VAR}."`
}

// DPoP says what clients prove about their tokens.
type DPoP struct {
	Required bool `key:"required" default:"false" doc:"Refuse tokens of issuers that are bound neither to a DPoP key nor to a client certificate: a stolen one opens nothing then. Tokens of auth.tokens are no such tokens."`
	Nonce    bool `key:"nonce" default:"false" doc:"Ask for a nonce of weir in each proof, so that none can be made in advance. It costs a client one more request in five minutes."`
}

// Login is weir's own client at an issuer, for people with a browser.
type Login struct {
	Issuer       string   `key:"issuer" doc:"The name of an issuer of auth.issuers."`
	ClientID     string   `key:"client_id" doc:"weir's name at the issuer. Its redirect there is public_url + /connect/callback."`
	ClientSecret Secret   `key:"client_secret" doc:"weir's secret at the issuer, best as ${VAR}. A public client has none."`
	Scopes       []string `key:"scopes" empty:"same" doc:"Scopes to ask for in addition to openid, such as those that put groups into the ID token."`
	UserInfo     []string `key:"userinfo" empty:"refused" doc:"For an issuer of OAuth without ID tokens, such as GitHub: URLs that say who the person of an access token is. The first answers with claims. Others answer with lists, which become claims by the last name of their path; issuers.NAME.groups: teams.html_url reads one. openid is not asked for then."`
}

// Roles are who may do more than call tools.
type Roles struct {
	Operator Role `key:"operator" doc:"Operators see the calls and figures of all callers in /console and /stats, use /api/v1/ and read /metrics."`
	Auditor  Role `key:"auditor" doc:"Auditors may read the audit log at /api/v1/audit, and see their own calls elsewhere."`
}

// Role lists who has a role.
type Role struct {
	Principals []string `key:"principals" empty:"same" doc:"Names of tokens, or principals such as corp:8a7f or cert:spiffe://example/agent."`
	Groups     []string `key:"groups" empty:"same" doc:"Groups of tokens or of issuers."`
}

// Required reports whether callers must show who they are.
func (a *Auth) Required() bool {
	return len(a.Tokens) > 0 || len(a.Issuers) > 0 || a.certificates || a.Server.On()
}

// vouched reports whether a principal is one of an issuer or a certificate, and so has no entry in
// tokens.
func (a *Auth) vouched(principal string) bool {
	if a.certificates && strings.HasPrefix(principal, certPrefix) {
		return true
	}
	return a.ofServer(principal) || slices.ContainsFunc(a.Issuers, func(i *Issuer) bool { return strings.HasPrefix(principal, i.Name+":") })
}

// HasOperator reports whether a caller whom auth knows can be an operator: by its token, or by
// auth.roles.
func (a *Auth) HasOperator() bool {
	role := &a.Roles.Operator
	if slices.ContainsFunc(role.Principals, a.vouched) || (len(a.Issuers) > 0 || a.Server.On()) && len(role.Groups) > 0 {
		return true
	}
	return slices.ContainsFunc(a.Tokens, func(t Token) bool {
		return t.Operator || slices.Contains(role.Principals, t.Name) || slices.ContainsFunc(t.Groups, func(g string) bool { return slices.Contains(role.Groups, g) })
	})
}

// certPrefix is the prefix of the principals of client certificates.
const certPrefix = "cert:"

// Ends returns when a token expires; zero if it does not.
func (t *Token) Ends() time.Time {
	end, _ := parseDay(t.Expires) // the configuration was checked
	return end
}

// parseDay reads a day or a time.
func parseDay(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, nil
	}
	return time.Parse(time.RFC3339, text)
}

// issuerName matches the names of issuers in auth.issuers. A colon would let two issuers have the
// same principal.
var issuerName = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkIssuers(d *strict.Decoder, c *Config) {
	for n, t := range c.Auth.Tokens {
		if c.Auth.vouched(t.Name) {
			path := "auth.tokens[" + strconv.Itoa(n) + "].name"
			d.Fail(d.At(path), path, "%s: %q looks like a principal of an issuer or a certificate; give the token another name", path, strict.Clip(t.Name))
		}
		if t.Name == identity.Local {
			path := "auth.tokens[" + strconv.Itoa(n) + "].name"
			d.Fail(d.At(path), path, "%s: %q is the principal of callers that no token identifies; give the token another name", path, t.Name)
		}
	}
	checkLogin(d, &c.Auth)
	checkAuthServer(d, c)
	if len(c.Auth.Issuers) == 0 {
		if c.Auth.DPoP != (DPoP{}) {
			d.Fail(d.At("auth.dpop"), "auth.dpop", "auth.dpop is about the tokens of auth.issuers, and there is no issuer; static tokens are bound to no key")
		}
		return
	}
	const public = "public_url"
	switch u, err := url.Parse(c.PublicURL); {
	case c.PublicURL == "":
		d.Fail(d.At("auth.issuers"), "auth.issuers", "auth.issuers need public_url: tokens are made for the URL under which clients reach weir, and weir takes it from no header; write public_url: https://HOST")
	case err == nil && (u.RawQuery != "" || u.Fragment != ""):
		d.Fail(d.At(public), public, "public_url must have no query and no fragment: it is the beginning of the audiences of tokens")
	case err == nil && u.Scheme == "http" && !address.Loopback(u.Hostname()):
		d.Warn(d.At(public), public, "public_url is http: every reader of the network can use the tokens that callers send")
	}
	urls, prefixes := map[string]string{}, map[string]string{}
	for _, i := range c.Auth.Issuers {
		at := "auth.issuers." + i.Name
		if !issuerName().MatchString(i.Name) {
			d.Fail(d.At(at), at, "%s: the name begins principals such as corp:8a7f, so it has 1 to 64 letters, digits, dots, dashes and underscores", strict.Clip(at))
		}
		if slices.Contains([]string{"cert", "account", "client", PeopleAccounts}, strings.ToLower(i.Name)) {
			d.Fail(d.At(at), at, "%s: the name %s is taken: principals that no issuer vouches for begin with it", at, strings.ToLower(i.Name))
		}
		checkIssuerURL(d, i.Issuer, strict.Join(at, "issuer"), true)
		checkIssuerURL(d, i.JWKS, strict.Join(at, "jwks"), false)
		if other, twice := urls[i.Issuer]; twice {
			d.Fail(d.At(at), at, "%s and auth.issuers.%s are the same issuer; a token has one", at, other)
		}
		urls[i.Issuer] = i.Name
		if d.Set(strict.Join(at, "introspection")) {
			checkIssuerURL(d, i.Introspection.URL, strict.Join(at, "introspection.url"), true)
			checkPrefix(d, i, prefixes)
		}
		for key, list := range map[string][]string{"audiences": i.Audiences, "scopes": i.Scopes} {
			path := strict.Join(at, key)
			if slices.ContainsFunc(list, func(s string) bool { return s == "" || key == "scopes" && strings.ContainsAny(s, " \t\"\\") }) {
				d.Fail(d.At(path), path, "%s must be texts without spaces", path)
			}
		}
	}
}

// checkLogin checks auth.login.
func checkLogin(d *strict.Decoder, auth *Auth) {
	const at = "auth.login"
	if !d.Set(at) {
		return
	}
	l := &auth.Login
	known := slices.ContainsFunc(auth.Issuers, func(i *Issuer) bool { return i.Name == l.Issuer })
	switch {
	case l.Issuer == "":
		d.Fail(d.At(at), at, "auth.login.issuer is missing; write the name of an issuer of auth.issuers")
	case !known:
		d.Fail(d.At(at+".issuer"), at+".issuer", "auth.login.issuer: auth.issuers has no %q; add it there", strict.Clip(l.Issuer))
	}
	if i := slices.IndexFunc(auth.Issuers, func(i *Issuer) bool { return i.Name == l.Issuer }); i >= 0 && len(auth.Issuers[i].Scopes) > 0 && len(auth.Issuers[i].Require) == 0 {
		d.Warn(d.At(at), at, "auth.login knows everyone whom the issuer %q lets sign in at client_id: its scopes are of access tokens alone; write require there to admit fewer people", l.Issuer)
	}
	if l.ClientID == "" {
		d.Fail(d.At(at), at, "auth.login.client_id is missing; register weir at the issuer with the redirect public_url + /connect/callback")
	}
	if slices.ContainsFunc(l.Scopes, func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\"\\") }) {
		d.Fail(d.At(at+".scopes"), at+".scopes", "auth.login.scopes must be texts without spaces")
	}
	for i, address := range l.UserInfo {
		checkIssuerURL(d, address, at+".userinfo["+strconv.Itoa(i)+"]", true)
	}
}

// checkPrefix checks that at most one issuer is asked about a token: others could use a token that they
// are shown. taken has the issuers of the prefixes before.
func checkPrefix(d *strict.Decoder, i *Issuer, taken map[string]string) {
	at, prefix := "auth.issuers."+i.Name, i.Introspection.Prefix
	path := strict.Join(at, "introspection.prefix")
	if strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r > '~' }) {
		d.Fail(d.At(path), path, "%s must be the beginning of a token, without spaces", path)
	}
	other, twice := taken[prefix]
	switch {
	case twice && prefix == "":
		d.Fail(d.At(strict.Join(at, "introspection")), path, "%s is missing: auth.issuers.%s has none either, so the tokens of each would be shown to the other; write how the opaque tokens of one begin", path, other)
	case twice:
		d.Fail(d.At(path), path, "%s and that of auth.issuers.%s are the same, so the tokens of each would be shown to the other; write more of how they begin", path, other)
	}
	taken[prefix] = i.Name
}

// checkIssuerURL checks a URL that weir asks about callers: over https, or on this machine.
func checkIssuerURL(d *strict.Decoder, text, path string, needed bool) {
	if text == "" {
		if needed {
			d.Fail(d.At(path), path, "%s is missing; write the URL of the issuer", path)
		}
		return
	}
	u := d.CheckURL(text, path)
	if u != nil && u.Scheme != "https" && !address.Loopback(u.Hostname()) {
		d.Fail(d.At(path), path, "%s must be https: a program that changes the answer on its way could call as any user", path)
	}
}

func checkExpiry(d *strict.Decoder, t *Token, path string) {
	if _, err := parseDay(t.Expires); err != nil {
		path = strict.Join(path, "expires")
		d.Fail(d.At(path), path, "%s must be a day such as 2027-01-01 (it ends at 0:00 UTC) or a time such as 2027-01-01T08:00:00Z, not %q", path, strict.Clip(t.Expires))
	}
}
