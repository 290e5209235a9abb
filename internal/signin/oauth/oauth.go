package oauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/mcp"
)

// Flow is how a token is got.
type Flow string

// The flows: a person at a browser, a person at another device, weir by itself, and those that get a
// token for the one that the caller shows weir (Flow.FromCaller).
const (
	FlowCode              Flow = "code"
	FlowDevice            Flow = "device"
	FlowClientCredentials Flow = "client_credentials"
	FlowJWTBearer         Flow = "jwt_bearer"     // RFC 7523 §2.1: the platform's JWT is the grant
	FlowTokenExchange     Flow = "token_exchange" // RFC 8693
	FlowOnBehalfOf        Flow = "on_behalf_of"   // of Microsoft Entra
	FlowIDJAG             Flow = "id_jag"         // MCP's enterprise-managed authorization
	FlowOwnIDJAG          Flow = "id_jag_own"     // the same, for the ID token of weir's own in AssertionFile
)

// Bounds of a client.
const (
	pendingTime = 10 * time.Minute
	maxPending  = 1000
	maxCached   = 10_000
	toldTime    = 5 * time.Minute
	// askedTime is how long the scopes of a challenge are the scopes of the next sign-in of its
	// principal.
	askedTime = 10 * time.Minute
	// metadataTime is how long the place of a server's metadata is known without another challenge.
	metadataTime = 24 * time.Hour
	// cachedTime is how long a grant is used before the vault is read again: a sign-in or a sign-out
	// of another process is seen after this time.
	cachedTime = 2 * time.Second
)

// Server describes an MCP server to sign in at. It must not be changed once it is in use.
type Server struct {
	Name, URL  string
	Configured bool // there is an oauth entry: the server wants OAuth, whatever its 401 says
	Flow       Flow
	Issuer     string // of the configuration; "" for the one that the server names

	ClientID     string
	ClientSecret identity.Secret
	// AuthMethod is client_secret_basic, client_secret_post or private_key_jwt; "" lets the issuer's
	// metadata decide.
	AuthMethod    string
	PrivateKey    identity.Secret // PEM, for private_key_jwt
	AssertionFile string          // a file with a JWT of the platform: a client's proof, the grant of FlowJWTBearer, or the ID token of FlowOwnIDJAG

	Scopes     []string
	Resource   string            // of the configuration; "" for the one that the server names
	NoResource bool              // send no resource parameter
	Audience   string            // of token exchanges; "" sends none
	Provider   Provider          // of FlowIDJAG and FlowOwnIDJAG
	Params     map[string]string // further parameters of authorization requests
	NoDocument bool              // weir's client metadata document cannot be reached by the issuer
}

// key names the server's credentials in the vault. A server whose URL was changed has others: a token
// never goes to an address that it was not meant for.
func (s *Server) key() string { return s.Name + " " + s.URL }

// id names the credential of a principal at a server.
func (s *Server) id(principal string) vault.ID {
	return vault.ID{Kind: vault.Token, Principal: principal, Server: s.key()}
}

// ServerName returns the name of the server of a credential in the vault.
func ServerName(id vault.ID) string {
	name, _, _ := strings.Cut(id.Server, " ")
	return name
}

// Shared is the principal of credentials that all callers of a server share, and Anonymous is a
// principal without any.
const (
	Shared    = ""
	Anonymous = "\x00"
)

// Options configure a Client.
type Options struct {
	Store     vault.Store
	PublicURL func() string    // where weir serves its client metadata document; nil and "" have none
	Now       func() time.Time // nil: time.Now
	// Lookup resolves names, and Dial connects to addresses that were checked. Nil are the system's.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	TLS    *tls.Config
	// Page returns the page of weir on which a person signs in at a server; nil and "" have none.
	Page func(server string) string
	// InUse, if set, is called with each access token before it is used the first time, and again now
	// and then. It removes the token from logs, errors and results.
	InUse func(token string)
	// Configured returns a server of the configuration by its name. SignOut proves with its secrets who
	// weir is. Nil knows none.
	Configured func(name string) (*Server, bool)
	// Logger reports tokens that cannot be stored; nil discards.
	Logger *slog.Logger
}

// Client signs in at servers and keeps the tokens. All methods are safe for concurrent use. It has
// goroutines only while tokens are refreshed, or were not taken by the store. A Client of which Token, Renew or
// Transport is used must be closed.
type Client struct {
	store     vault.Store
	publicURL func() string // without a final slash
	now       func() time.Time
	inUse     func(token string)
	page      func(server string) string
	servers   func(name string) (*Server, bool) // of the configuration; nil knows none
	web       *web

	pending *bounded.Map[string, *pending] // by state
	told    *bounded.Map[string, bool]     // whether a server says how to sign in
	asked   *challenges
	cached  *bounded.Map[vault.ID, *cached]   // grants
	waits   *bounded.Map[vault.ID, *patience] // after failed refreshes
	unsaved *unsaved                          // grants that the store did not take
	nonces  *bounded.Map[string, string]      // of servers and token endpoints, for proofs

	refreshes *refreshes
}

// New returns a Client.
func New(o Options) *Client {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.InUse == nil {
		o.InUse = func(string) {}
	}
	if o.PublicURL == nil {
		o.PublicURL = func() string { return "" }
	}
	if o.Page == nil {
		o.Page = func(string) string { return "" }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		inUse: o.InUse, page: o.Page, servers: o.Configured,
		store: o.Store, now: o.Now, publicURL: func() string { return strings.TrimRight(o.PublicURL(), "/") },
		web:       &web{lookup: o.Lookup, dial: o.Dial, tls: o.TLS},
		pending:   bounded.New(bounded.Options[string, *pending]{MaxCount: maxPending, TTL: pendingTime, Now: o.Now}),
		told:      bounded.New(bounded.Options[string, bool]{MaxCount: maxPending, TTL: toldTime, Now: o.Now}),
		asked:     newChallenges(o.Now),
		cached:    bounded.New(bounded.Options[vault.ID, *cached]{MaxCount: maxCached, TTL: cachedTime, Now: o.Now}),
		nonces:    bounded.New(bounded.Options[string, string]{MaxCount: maxPending, Now: o.Now}),
		waits:     bounded.New(bounded.Options[vault.ID, *patience]{MaxCount: maxCached, Now: o.Now}),
		refreshes: newRefreshes(),
	}
	c.unsaved = newUnsaved(o.Store, o.Logger, func(id vault.ID) { c.cached.Take(id) })
	return c
}

// Close waits for the refreshes in progress while ctx lasts, and stores the tokens that the store did
// not take before. The error names the servers whose tokens are lost. No other method may be in use.
func (c *Client) Close(ctx context.Context) error {
	var early sync.WaitGroup
	if c.refreshes.any() { // they may take all of the time
		early.Go(func() { _ = c.unsaved.saveAll(ctx) })
	}
	err := c.refreshes.close(ctx)
	early.Wait()
	return errors.Join(err, c.unsaved.close(ctx))
}

// SignInError says that a principal has to sign in at a server before a call.
type SignInError struct {
	Server string
	Reason string // why the earlier sign-in does not serve; "" if there was none
	URL    string // of the page on which a person signs in; "" if there is none
	// Command stores the credential of the caller that the server needs in place of a sign-in; "" if
	// it needs a sign-in.
	Command string
	// Fix names the remedy if neither a sign-in nor a command of the person does: the server takes
	// the credential from the token that the caller shows weir.
	Fix string
	// Claims are the claims that the issuer wants in the next sign-in of the person, in JSON; "" if it
	// asks for nothing.
	Claims string
	// Scopes are those that the server asks for and that the token lacks, as far as the server says.
	Scopes []string
}

// Error implements error.
func (e *SignInError) Error() string {
	if e.Fix != "" {
		return fmt.Sprintf("the server %q takes its credential from the token of the caller, and %s: %s", e.Server, e.Reason, e.Fix)
	}
	why := ""
	if e.Reason != "" {
		why = " (" + e.Reason + ")"
	}
	how := "run"
	if e.URL != "" {
		how = "open " + e.URL + " or run"
	}
	what := "a sign-in"
	if e.Command != "" {
		what = "a credential of the caller"
	}
	return fmt.Sprintf("the server %q needs %s%s: %s `%s`", e.Server, what, why, how, e.command())
}

// command returns the command that a person runs.
func (e *SignInError) command() string { return cmp.Or(e.Command, "weir login "+e.Server) }

// Is makes the error one that a repetition of the call does not mend.
func (e *SignInError) Is(target error) bool { return target == mcp.ErrFinal }

// Refused returns the error that a caller of the server gets (spec/signin §4).
func (e *SignInError) Refused() error {
	details := map[string]any{"kind": mcp.KindUnauthorized.String(), "server": e.Server}
	if e.Fix == "" {
		details["command"] = e.command()
	}
	if e.Claims != "" {
		details["claims"] = e.Claims
	}
	if e.URL != "" {
		details["connect_url"] = e.URL
	}
	if len(e.Scopes) > 0 {
		details["scopes"] = e.Scopes
	}
	data, err := json.Marshal(details)
	if err != nil {
		data = nil // cannot happen: strings
	}
	return &mcp.Error{Kind: mcp.KindUnauthorized, Message: e.Error(), Data: data, Err: e}
}

// errState says that a callback belongs to no sign-in that is open.
var errState = errors.New("this sign-in is not open: it was used already, is older than 10 minutes, or was begun at another weir; begin again")
