package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/password"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
)

// PeopleAccounts is the value of auth.server.people for people of auth.accounts.
const PeopleAccounts = "accounts"

// Account is a person who signs in with a password.
type Account struct {
	Name     string   `key:"name" doc:"The person's name. The principal is account:NAME."`
	Password string   `key:"password" doc:"The Argon2id hash of the password, as weir account add writes it: $argon2id$v=19$…"`
	Groups   []string `key:"groups" empty:"same" doc:"Groups that the person is in, for rules and roles."`
}

// AuthServer is the authorization server of the gateway itself.
type AuthServer struct {
	People     string        `key:"people" doc:"Where people sign in: the name of the issuer of auth.login, or accounts for those of auth.accounts."`
	Clients    ServerClients `key:"clients" doc:"Which clients may ask for tokens."`
	Scopes     []string      `key:"scopes" empty:"refused" doc:"Scopes that clients may have, which rules can ask for. Default: mcp."`
	AccessTTL  time.Duration `key:"access_ttl" default:"10m" min:"1m" max:"24h" doc:"Life of an access token. It is renewed without a person."`
	RefreshTTL string        `key:"refresh_ttl" default:"30d" doc:"How long a client stays signed in without a person, such as 30d or 12h."`
	Consent    string        `key:"consent" default:"first" enum:"first,always" doc:"When a person is asked whether a client may call. first: the first time that a client with this redirect wants these scopes. Clients that come back to a program on the person's machine are asked about each time."`
}

// ServerClients are the clients of the authorization server.
type ServerClients struct {
	CIMD   bool           `key:"cimd" default:"true" doc:"Clients whose client_id is the URL of their metadata document, which weir fetches from public addresses."`
	DCR    Registration   `key:"dcr" flag:"enabled" doc:"Clients that register themselves (RFC 7591). false refuses them, and hosts names those that may."`
	Static []StaticClient `key:"static" empty:"same" doc:"Clients with an id of your choice."`
}

// Registration is dynamic registration.
type Registration struct {
	Enabled bool     `key:"enabled" default:"true" doc:"Take registrations."`
	Hosts   []string `key:"hosts" empty:"refused" doc:"Hosts to which all redirects of a registration must lead, such as claude.ai; localhost stands for programs on the person's machine, and cursor for redirects that start so. Default: all."`
}

// StaticClient is a client of the configuration.
type StaticClient struct {
	ID        string   `key:"id" doc:"The client_id."`
	Name      string   `key:"name" doc:"The name that people are shown. Default: id."`
	Redirects []string `key:"redirects" empty:"same" doc:"Exact URLs to which browsers may be sent back; the port of a loopback URL is free. A client without one calls without a person."`
	Logouts   []string `key:"logouts" empty:"same" doc:"Exact URLs to which browsers may be sent after a logout."`
	Secret    Secret   `key:"secret" doc:"The client's secret of 32 characters or more, best as ${VAR}. With it, or with jwks_uri, the client may call without a person (client_credentials)."`
	KeysURL   string   `key:"jwks_uri" doc:"Public https URL of the client's keys, for private_key_jwt."`
	Groups    []string `key:"groups" empty:"same" doc:"Groups of the client where it calls without a person. Its principal is client:ID."`
	Scopes    []string `key:"scopes" empty:"refused" doc:"Scopes that the client may have. Default: all."`
}

// On reports whether the gateway has an authorization server.
func (s *AuthServer) On() bool { return s.People != "" }

// Lasting returns the life of a sign-in.
func (s *AuthServer) Lasting() time.Duration {
	d, _ := parseDays(s.RefreshTTL)
	return d
}

// Granted returns the scopes that clients may have.
func (s *AuthServer) Granted() []string {
	if len(s.Scopes) == 0 {
		return []string{"mcp"}
	}
	return s.Scopes
}

// Prefixes of the principals of the authorization server.
const (
	accountPrefix = "account:"
	clientPrefix  = "client:"
)

// ofServer reports whether a principal is an account or a client of the authorization server.
func (a *Auth) ofServer(principal string) bool {
	return a.Server.On() && (strings.HasPrefix(principal, accountPrefix) || strings.HasPrefix(principal, clientPrefix))
}

const serverKey = "auth.server"

// checkAuthServer checks auth.accounts and auth.server.
func checkAuthServer(d *strict.Decoder, c *Config) {
	checkAccounts(d, &c.Auth)
	if !d.Set(serverKey) {
		if len(c.Auth.Accounts) > 0 {
			d.Warn(d.At("auth.accounts"), "auth.accounts", "auth.accounts have no effect without auth.server: {people: accounts}")
		}
		return
	}
	s := &c.Auth.Server
	fail := func(path, format string, args ...any) { d.Fail(d.At(path), path, "%s", fmt.Sprintf(format, args...)) }
	switch l := &c.Auth.Login; {
	case s.People == "":
		fail(serverKey, "auth.server.people is missing; write the name of an issuer, or accounts")
	case s.People == PeopleAccounts:
		if len(c.Auth.Accounts) == 0 {
			fail(serverKey, "auth.server.people is accounts and auth.accounts has none; weir account add NAME makes one")
		}
	case l.Issuer == "":
		fail(serverKey+".people", "auth.server.people needs auth.login, weir's client at %q; or write people: accounts", strict.Clip(s.People))
	case l.Issuer != s.People:
		fail(serverKey+".people", "auth.server.people is %q and auth.login.issuer is %q: people sign in with the client of auth.login, so write the same name", strict.Clip(s.People), strict.Clip(l.Issuer))
	}
	switch u, err := url.Parse(c.PublicURL); {
	case c.PublicURL == "":
		fail(serverKey, "auth.server needs public_url, the URL under which clients reach weir: it is the issuer of the tokens")
	case err == nil && u.Scheme == "http" && !address.Loopback(u.Hostname()):
		fail("public_url", "public_url must be https with auth.server: every reader of the network could use the tokens")
	}
	if life, ok := parseDays(s.RefreshTTL); !ok || life < s.AccessTTL || life > 400*24*time.Hour {
		fail(serverKey+".refresh_ttl", "auth.server.refresh_ttl must be a number of days such as 30d, or a duration of an hour or more, and 400d at most")
	}
	for _, scope := range s.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \t\"\\") || scope == "openid" || scope == "offline_access" {
			fail(serverKey+".scopes", "auth.server.scopes must be texts without spaces, and not openid or offline_access, which clients may always have")
		}
	}
	for _, i := range c.Auth.Issuers {
		if i.Issuer == strings.TrimSuffix(c.PublicURL, "/") {
			fail("auth.issuers."+i.Name, "auth.issuers.%s is this gateway itself; auth.server makes its tokens known", i.Name)
		}
	}
	checkStaticClients(d, s)
}

func checkAccounts(d *strict.Decoder, auth *Auth) {
	names := map[string]bool{}
	for i := range auth.Accounts {
		a, at := &auth.Accounts[i], "auth.accounts["+strconv.Itoa(i)+"]"
		if !issuerName().MatchString(a.Name) {
			d.Fail(d.At(at), at, "%s.name must have 1 to 64 letters, digits, dots, dashes and underscores", at)
		}
		if names[a.Name] {
			d.Fail(d.At(at), at, "%s: there is another account %q", at, strict.Clip(a.Name))
		}
		names[a.Name] = true
		if err := password.Check(a.Password); err != nil { // never shown: it may be the password itself
			path := strict.Join(at, "password")
			d.Fail(d.At(path), path, "%s is %s", path, err)
		}
	}
}

func checkStaticClients(d *strict.Decoder, s *AuthServer) {
	ids := map[string]bool{}
	for i := range s.Clients.Static {
		c, at := &s.Clients.Static[i], serverKey+".clients.static["+strconv.Itoa(i)+"]"
		fail := func(key, format string, args ...any) {
			path := strict.Join(at, key)
			d.Fail(d.At(path), path, "%s %s", path, fmt.Sprintf(format, args...))
		}
		if !issuerName().MatchString(c.ID) || strings.HasPrefix(c.ID, "weir-") {
			fail("id", "must have 1 to 64 letters, digits, dots, dashes and underscores, and must not start with weir-")
		}
		if ids[c.ID] {
			fail("id", "is the id of another client")
		}
		ids[c.ID] = true
		if secret := c.Secret.Reveal(); secret != "" && len(secret) < 32 {
			fail("secret", "must have 32 characters or more (openssl rand -base64 32 makes one)")
		}
		if len(c.Redirects) == 0 && c.Secret.Reveal() == "" && c.KeysURL == "" {
			d.Fail(d.At(at), at, "%s has neither redirects nor a secret, so it can get no token", at)
		}
		for _, redirect := range slices.Concat(c.Redirects, c.Logouts) {
			if u, err := url.Parse(redirect); err != nil || u.Scheme == "" || u.Fragment != "" || u.User != nil ||
				u.Scheme == "http" && !address.Loopback(u.Hostname()) {
				fail("redirects", "must be https URLs, loopback URLs or URLs of a program, without user and fragment; %q is none", strict.Clip(redirect))
			}
		}
		if c.KeysURL != "" {
			if u := d.CheckURL(c.KeysURL, strict.Join(at, "jwks_uri")); u != nil && u.Scheme != "https" {
				fail("jwks_uri", "must be https")
			}
		}
	}
}
