package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/net/egress"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of tokens and of the facts that are kept about them (spec/identity §2 and §4).
const (
	maxToken   = 16 << 10
	maxCached  = 10_000
	cacheTime  = 5 * time.Minute
	leeway     = 60 * time.Second
	maxSubject = 255
)

// Policy says which callers are known. Apply copies nothing of it; do not change it afterwards.
type Policy struct {
	// PublicURL is the URL of the gateway as clients write it, without a final slash.
	PublicURL string
	Tokens    []Token
	Issuers   []Issuer
	// Certificates admits callers by the client certificate of their connection. The listener has
	// verified it.
	Certificates bool
	Roles        []Role
	// Login lets people say who they are in a browser; nil: they cannot.
	Login *Login
	// Own is the authorization server of the gateway itself; nil: there is none.
	Own *Own
	// BoundTokens refuses tokens of issuers that are bound neither to a DPoP key nor to a certificate.
	BoundTokens bool
	// Nonces asks for a nonce in each DPoP proof.
	Nonces bool
}

// Token is one static token.
type Token struct {
	Name    string
	SHA256  [sha256.Size]byte
	Groups  []string
	Expires time.Time // zero: never
}

// Issuer is one authorization server whose tokens are accepted.
type Issuer struct {
	// Name is the prefix of the principals of its tokens.
	Name string
	// Issuer is the claim iss, and where metadata is found. JWKS is the URL of the keys; the
	// metadata names it where empty.
	Issuer, JWKS string
	// Audiences are accepted in addition to the URLs of the gateway.
	Audiences []string
	// Subject and Groups are the claims with the user and the groups; "sub" and "groups" where
	// empty. Groups may be a path through objects, such as realm_access.roles.
	Subject, Groups string
	// Require are claims with the value that each must have or contain.
	Require map[string]string
	// Scopes are the scopes that each token must have.
	Scopes []string
	// Introspection is asked about tokens that are no JWTs; nil asks nothing.
	Introspection *Introspection
}

// Role is given to principals and to members of groups.
type Role struct {
	Name               string
	Principals, Groups []string
}

// Options is the configuration of an Authenticator.
type Options struct {
	// Client makes requests to hosts that the Policy names. Nil is a client with bounds of its own.
	Client *http.Client
	// Network connects to hosts that the metadata of an issuer name. The zero Network is the system's.
	Network egress.Network
	// Now is the clock; time.Now where nil.
	Now func() time.Time
	// Logger takes failures of issuers; nil discards them.
	Logger *slog.Logger
	// Proofs checks DPoP proofs. Nil refuses tokens that are bound to a DPoP key.
	Proofs *dpop.Verifier
}

// An Authenticator finds out who makes requests. Its methods may be called concurrently.
type Authenticator struct {
	o     Options
	ctx   context.Context // ends with Close
	end   context.CancelFunc
	keys  keyRing
	state atomic.Pointer[state]
}

// state belongs to one Policy. Apply replaces it, so nothing that an earlier Policy allowed stays
// in a cache.
type state struct {
	policy   Policy
	static   []*identity.Identity // of policy.Tokens
	issuers  map[string]*issuer   // by the claim iss
	asked    []*issuer            // those with introspection
	scopes   []string             // of all issuers
	login    *login               // nil without Policy.Login
	own      *issuer              // of Policy.Own, nil without it
	proofs   *dpop.Verifier       // nil: tokens bound to a DPoP key are refused
	verified *bounded.Map[[sha256.Size]byte, *verified]
	answers  *introspected
}

// issuer is an Issuer with its keys.
type issuer struct {
	Issuer
	keys    *keySet
	asks    source // for introspection
	keyless bool   // it signs nothing that weir reads: its keys are not fetched ahead
}

// verified is a token whose signature and claims are good. The audience and the certificate are
// checked for every request.
type verified struct {
	id        *identity.Identity
	audiences []string
	issuer    *issuer
	bound     binding
	grant     string // that a token of this gateway belongs to, or ""
	until     time.Time
}

// New returns an Authenticator that knows no caller before Apply.
func New(o Options) *Authenticator {
	if o.Client == nil {
		o.Client = newClient()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Authenticator{o: o}
	a.ctx, a.end = context.WithCancel(context.Background())
	a.keys = keyRing{o: o, ctx: a.ctx, sets: map[string]*keySet{}}
	a.Apply(Policy{})
	return a
}

// Close ends fetches and waits for them. Later requests are checked with the keys that are there.
func (a *Authenticator) Close() {
	a.end()
	a.keys.wait()
}

// Apply replaces the policy. Verified tokens are forgotten; the keys of issuers that stay are kept,
// so that a reload during an outage of an issuer locks no caller out.
func (a *Authenticator) Apply(p Policy) {
	s := &state{
		policy: p, issuers: map[string]*issuer{}, proofs: a.o.Proofs,
		verified: bounded.New(bounded.Options[[sha256.Size]byte, *verified]{MaxCount: maxCached, TTL: cacheTime, Now: a.o.Now}),
		answers:  newIntrospected(a.o, a.ctx),
	}
	for _, t := range p.Tokens {
		s.static = append(s.static, p.holder(t))
	}
	for _, i := range p.Issuers {
		if i.Subject == "" {
			i.Subject = "sub"
		}
		if i.Groups == "" {
			i.Groups = "groups"
		}
		known := &issuer{Issuer: i}
		s.issuers[i.Issuer] = known
		s.scopes = append(s.scopes, i.Scopes...)
		if i.Introspection != nil {
			known.asks = a.o.source(i.Introspection.URL)
			s.asked = append(s.asked, known)
		}
		if p.Login != nil && p.Login.Issuer == i.Name {
			s.login = &login{Login: *p.Login, from: known, ring: &a.keys, asks: a.o.source(i.Issuer, append([]string{i.JWKS}, p.Login.UserInfo...)...)}
			known.keyless = len(p.Login.UserInfo) > 0
		}
	}
	if p.Own != nil {
		s.own, s.scopes = &issuer{Issuer: Issuer{Issuer: p.Own.Server.Issuer()}}, p.Own.Scopes
	}
	s.scopes = sorted(s.scopes)
	a.keys.follow(s.issuers)
	a.state.Store(s)
}

// Authenticate returns who makes a request; it is a guard.Options.Authenticate.
func (a *Authenticator) Authenticate(r *http.Request, bearer string) (*identity.Identity, error) {
	s := a.state.Load()
	if bearer == "" {
		return s.byCertificate(r)
	}
	if len(bearer) > maxToken {
		return nil, unauthorized("the bearer token is longer than %d bytes", maxToken)
	}
	sum := sha256.Sum256([]byte(bearer))
	if id, err := s.byToken(sum, a.o.Now()); id != nil || err != nil {
		if err == nil && guard.Scheme(r.Header) == guard.DPoP {
			return nil, notBound()
		}
		return id, err
	}
	if len(s.issuers) == 0 && s.own == nil {
		return nil, unknown()
	}
	v, err := a.verify(r.Context(), s, bearer, sum)
	if err != nil {
		return nil, err
	}
	if err := s.admit(r, bearer, v); err != nil {
		return nil, err
	}
	return v.id, nil
}

// byToken looks for a static token.
func (s *state) byToken(sum [sha256.Size]byte, now time.Time) (*identity.Identity, error) {
	found, err := find(s.policy.Tokens, sum, now)
	if found < 0 || err != nil {
		return nil, err
	}
	return s.static[found], nil
}

// Find returns the static token that a bearer token is. The error is of mcp.KindUnauthorized.
func Find(tokens []Token, bearer string, now time.Time) (*Token, error) {
	found, err := find(tokens, sha256.Sum256([]byte(bearer)), now)
	if err == nil && (found < 0 || bearer == "") {
		err = unknown()
	}
	if err != nil {
		return nil, err
	}
	return &tokens[found], nil
}

// find returns the index of the token with a hash, -1 if there is none. It compares with every hash
// in constant time, so that neither the time nor the order of the list shows how close a guess was.
func find(tokens []Token, sum [sha256.Size]byte, now time.Time) (found int, err error) {
	found = -1
	for i := range tokens {
		if subtle.ConstantTimeCompare(sum[:], tokens[i].SHA256[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return -1, nil
	}
	if end := tokens[found].Expires; !end.IsZero() && !now.Before(end) {
		return -1, unauthorized("the token of %q has expired", tokens[found].Name)
	}
	return found, nil
}

// verify checks a token of an issuer, or finds it among those checked before.
func (a *Authenticator) verify(ctx context.Context, s *state, bearer string, sum [sha256.Size]byte) (*verified, error) {
	now := a.o.Now()
	if v, ok := s.verified.Get(sum); ok && now.Before(v.until) {
		return v, nil
	}
	if strings.Count(bearer, ".") != 2 {
		from := s.issuerOf(bearer)
		if from == nil {
			return nil, unknown()
		}
		return s.introspect(ctx, from, bearer, sum)
	}
	v, err := s.verifyJWT(ctx, bearer, now)
	if err != nil {
		return nil, err
	}
	s.verified.Put(sum, v, 0)
	if v.id.GroupsMissing {
		a.o.Logger.Warn("the issuer left the groups out of a token because there are too many; rules that allow by group do not match this caller", "principal", v.id.Principal)
	}
	return v, nil
}

// admit checks the parts that depend on the request: the audience, the key or the certificate that a
// token is bound to, and then the scopes.
func (s *state) admit(r *http.Request, bearer string, v *verified) error {
	if v.grant != "" && s.policy.Own.Server.Ended(v.grant) {
		return unauthorized("the sign-in of the token has ended; sign in again")
	}
	if !s.audienceFits(r, v) {
		return unauthorized("the token is for another audience; ask the issuer for a token with the resource %s", s.policy.PublicURL+resourcePath(r.URL.Path))
	}
	if err := s.holds(r, bearer, v.bound); err != nil {
		return err
	}
	for _, scope := range v.issuer.Scopes {
		if !v.id.HasScope(scope) {
			return guard.InsufficientScope(v.issuer.Scopes, "the token has no scope %q; ask the issuer for: %s", scope, strings.Join(v.issuer.Scopes, " "))
		}
	}
	return nil
}

// Named returns the caller who has the token of a name, nil if there is no such token.
func (p *Policy) Named(name string) *identity.Identity {
	for _, t := range p.Tokens {
		if t.Name == name {
			return p.holder(t)
		}
	}
	return nil
}

// holder returns the caller who has a token.
func (p *Policy) holder(t Token) *identity.Identity {
	id := &identity.Identity{Principal: t.Name, Groups: sorted(t.Groups), Expires: t.Expires}
	id.Roles = p.roles(id)
	return id
}

// roles returns the roles of an identity.
func (p *Policy) roles(id *identity.Identity) []string {
	var out []string
	for _, role := range p.Roles {
		if slices.Contains(role.Principals, id.Principal) || slices.ContainsFunc(role.Groups, id.InGroup) {
			out = append(out, role.Name)
		}
	}
	return sorted(out)
}

// rolesByGroup returns the roles that an identity lacks and that some group gives.
func (s *state) rolesByGroup(id *identity.Identity) []string {
	var out []string
	for _, role := range s.policy.Roles {
		if len(role.Groups) > 0 && !id.HasRole(role.Name) {
			out = append(out, role.Name)
		}
	}
	return sorted(out)
}

// sorted returns the texts in order and once each; nil if there are none.
func sorted(texts []string) []string {
	if len(texts) == 0 {
		return nil
	}
	out := slices.Clone(texts)
	slices.Sort(out)
	return slices.Compact(out)
}

func unauthorized(format string, args ...any) error {
	return mcp.Errorf(mcp.KindUnauthorized, format, args...)
}

func unknown() error { return unauthorized("the bearer token is not known here") }

// unavailable is the error for a token that may be good, of an issuer that cannot be asked.
func unavailable(issuer string, wait time.Duration) error {
	err := mcp.Errorf(mcp.KindIdentityUnavailable, "the issuer %q (auth.issuers) cannot be asked about the token now; try again", issuer)
	err.SetRetryAfter(wait)
	return err
}
