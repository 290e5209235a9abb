package guard

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Options configures a Guard. The zero value admits programs and pages on this machine as the
// single local principal.
type Options struct {
	// Hosts are permitted values of the Host header besides the loopback names, with or without a
	// port: "weir.example.com", "10.0.0.7:8088". If it is empty, a listener that is not on loopback
	// permits every name.
	Hosts []string
	// Origins are the web origins whose pages may call, in addition to the server's own and the
	// origins of this machine: "https://app.example.com". "*" permits all, without credentials.
	Origins []string
	// OwnPages admits only the pages of the server's own origin, and lets no other read an answer.
	// Origins are then further names of this origin, and "*" is none. It is for pages with forms. A
	// browser may still follow a link to them.
	OwnPages bool
	// Authenticate returns who made a request. The path of the request may decide for which
	// audience a token must be. bearer is "" if the request has no token but a certificate of the
	// client. The kind of an error decides the response: mcp.KindUnauthorized (401),
	// mcp.KindInsufficientScope (403), mcp.KindIdentityUnavailable (503). Authenticate is called
	// concurrently. Nil means no authentication: every caller is mcp.LocalPrincipal.
	Authenticate func(r *http.Request, bearer string) (*identity.Identity, error)
	// Login returns who has signed in at the browser of a request that has neither a token nor a
	// certificate, nil if no person has. It is for paths that refuse pages of other origins. It is
	// called concurrently. Nil knows no logins.
	Login func(r *http.Request) (*identity.Identity, error)
	// Challenge returns the WWW-Authenticate header of a request: the URL of the protected
	// resource's metadata (RFC 9728) and the scopes that a token needs. Nil names only the Realm.
	Challenge func(r *http.Request) (metadata string, scopes []string)
	// Admit returns an error if an authenticated caller may not pass; the response is 403. It is
	// called concurrently. Nil admits all.
	Admit func(id *identity.Identity) error
	// Streams ends streams with the credentials of their callers; see [Lasting]. Nil ends none.
	Streams *Streams
	// HostsKey and OriginsKey are the names of Hosts and Origins in messages, such as the key of a
	// configuration; "the allowed hosts" and "the allowed origins" where empty.
	HostsKey, OriginsKey string
	// Realm is the realm of WWW-Authenticate; "weir" where empty.
	Realm string
	// Logger takes refusals, at debug level; nil discards them.
	Logger *slog.Logger
	// Refused is called for each request that is refused. It is called concurrently. It may be nil.
	Refused func(r *http.Request, status int, err error)
}

// Guard checks requests. It is safe for concurrent use.
type Guard struct {
	hosts        map[string]bool
	origins      map[string]bool
	anyOrigin    bool
	ownPages     bool
	authenticate func(*http.Request, string) (*identity.Identity, error)
	login        func(*http.Request) (*identity.Identity, error)
	challenge    func(*http.Request) (string, []string)
	admit        func(*identity.Identity) error
	streams      *Streams
	realm        string
	hostsKey     string
	originsKey   string
	log          *slog.Logger
	refused      func(*http.Request, int, error)
}

// New returns a Guard.
func New(o Options) *Guard {
	g := &Guard{hosts: map[string]bool{}, origins: map[string]bool{}, ownPages: o.OwnPages, authenticate: o.Authenticate, login: o.Login, challenge: o.Challenge, admit: o.Admit, streams: o.Streams, realm: o.Realm, log: o.Logger, refused: o.Refused,
		hostsKey: cmp.Or(o.HostsKey, "the allowed hosts"), originsKey: cmp.Or(o.OriginsKey, "the allowed origins")}
	for _, h := range o.Hosts {
		h = strings.TrimSpace(h)
		name := hostname(h)
		g.hosts[strings.ToLower(strings.Replace(h, name, address.ASCIIHost(name), 1))] = true
	}
	for _, origin := range o.Origins {
		if origin = strings.TrimSpace(origin); origin == "*" {
			g.anyOrigin = true
			continue
		}
		if origin != "" {
			g.origins[spelled(origin)] = true
		}
	}
	if g.realm == "" {
		g.realm = "weir"
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	return g
}

// Wrap returns a handler that calls next for admitted requests. next finds the principal with
// [Principal].
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r, ok := g.Pass(w, r); ok {
			next.ServeHTTP(w, r)
		}
	})
}

// Pass returns an admitted request with its caller; see [Principal]. ok is false if the request is not
// admitted, or is a preflight of a browser: Pass has answered it then.
func (g *Guard) Pass(w http.ResponseWriter, r *http.Request) (admitted *http.Request, ok bool) {
	if id := vouched(r.Context()); id != nil {
		return g.pass(w, r, id)
	}
	for _, name := range []string{"Authorization", "Origin"} {
		// A proxy in front may see the other one of the two.
		if len(r.Header[name]) > 1 {
			g.refuse(w, r, http.StatusBadRequest, mcp.Errorf(mcp.KindInvalidRequest, "the request has %d %s headers; send one", len(r.Header[name]), name))
			return nil, false
		}
	}
	if err := g.CheckHost(r); err != nil {
		g.refuse(w, r, http.StatusForbidden, err)
		return nil, false
	}
	origin := r.Header.Get("Origin")
	if err := g.CheckOrigin(r); err != nil {
		g.refuse(w, r, http.StatusForbidden, err)
		return nil, false
	}
	if origin != "" && !g.ownPages {
		g.allowOrigin(w.Header(), origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			preflight(w, r)
			return nil, false
		}
	}
	if g.authenticate == nil {
		if g.streams != nil {
			r = r.WithContext(context.WithValue(r.Context(), challengeKey{}, challenger{g: g, r: r, lasts: begins(r), drains: g.streams.seen()}))
		}
		return r, true
	}
	id, err := g.identify(r)
	if err != nil {
		g.refuseCaller(w, r, err)
		return nil, false
	}
	return g.pass(w, r, id)
}

// pass returns the request of a caller who is known, if the caller may pass.
func (g *Guard) pass(w http.ResponseWriter, r *http.Request, id *identity.Identity) (admitted *http.Request, ok bool) {
	if g.admit != nil {
		if err := g.admit(id); err != nil {
			g.refuse(w, r, http.StatusForbidden, err)
			return nil, false
		}
	}
	ctx := identity.With(r.Context(), id)
	if g.challenge != nil || g.streams != nil {
		ctx = context.WithValue(ctx, challengeKey{}, challenger{g: g, r: r, lasts: g.challenge != nil || begins(r), drains: g.streams.seen()})
	}
	return r.WithContext(ctx), true
}

type vouchedKey struct{}

// Vouch returns the context of a request whose caller another node of this gateway has found out. A Guard
// checks neither its Host and Origin nor its credentials.
func Vouch(ctx context.Context, id *identity.Identity) context.Context {
	return context.WithValue(ctx, vouchedKey{}, id)
}

func vouched(ctx context.Context) *identity.Identity {
	id, _ := ctx.Value(vouchedKey{}).(*identity.Identity)
	return id
}

// CheckHost returns an error of KindPermissionDenied for a Host header that
// the server does not answer to. A connection to a loopback address needs a
// loopback name or one of Options.Hosts; so does one whose local address is
// unknown.
func (g *Guard) CheckHost(r *http.Request) error {
	host := strings.ToLower(r.Host)
	name := hostname(host)
	if g.hosts[host] || g.hosts[name] {
		return nil
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || loopback(local) {
		if address.Loopback(name) {
			return nil
		}
		return mcp.Errorf(mcp.KindPermissionDenied, "the Host header %q is not a name of this machine; add it to %s if it is meant to reach this server", clip(r.Host), g.hostsKey)
	}
	if len(g.hosts) == 0 || name == hostname(local.String()) {
		return nil
	}
	return mcp.Errorf(mcp.KindPermissionDenied, "the Host header %q does not lead to this server; add it to %s if it should", clip(r.Host), g.hostsKey)
}

// loopback reports whether only this machine has an address.
func loopback(a net.Addr) bool {
	return address.LoopbackAddr(a) || address.Loopback(hostname(a.String()))
}

// CheckOrigin returns an error of KindPermissionDenied for a request that the
// page of a foreign site had a browser send. Call CheckHost first: a page of
// the server's own host is let in.
func (g *Guard) CheckOrigin(r *http.Request) error {
	if g.ownPages {
		return g.checkOwn(r)
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		// Browsers leave Origin out of some requests that they do not let the page read, such as
		// the request of an <img>, but say that they are foreign.
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return mcp.Errorf(mcp.KindPermissionDenied, "a browser sent this request for a page of another site")
		}
		return nil
	}
	if g.anyOrigin || g.named(origin) {
		return nil
	}
	u, err := url.Parse(origin)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		if sameHost(origin, r.Host) || address.Loopback(u.Hostname()) {
			return nil
		}
	}
	return mcp.Errorf(mcp.KindPermissionDenied, "pages of the origin %q may not call this server; add it to %s if they should", clip(origin), g.originsKey)
}

// Headers of cross-origin answers.
const (
	exposed = "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, DPoP-Nonce, Retry-After"
	methods = "GET, POST, DELETE, OPTIONS"
	allowed = "Content-Type, Accept, Authorization, DPoP, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
)

func (g *Guard) allowOrigin(h http.Header, origin string) {
	// The origin itself, never "*": that would not be valid with credentials.
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", exposed)
	if !g.anyOrigin || g.named(origin) {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

// preflight answers a browser's question whether it may send a request. The
// origin has been checked, so any header may be sent: 2026-07-28 has a header
// for every annotated argument of a tool, and their names are not known here.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	want := r.Header.Get("Access-Control-Request-Headers")
	if want == "" || len(want) > 4096 {
		want = allowed
	}
	h.Set("Access-Control-Allow-Headers", want)
	h.Add("Vary", "Access-Control-Request-Headers")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	if g.refused != nil {
		g.refused(r, status, err)
	}
	g.log.Debug("request refused", "status", status, "reason", err.Error(), "remote", r.RemoteAddr)
	Refuse(w, r, status, err)
}

// WriteError answers with err as a JSON-RPC error response, the form in which
// MCP clients read the reason of a refusal. The zero id is written as null.
func WriteError(w http.ResponseWriter, status int, id jsonrpc.ID, err error) {
	body := jsonrpc.AppendError(make([]byte, 0, 256), id, mcp.WireError(err, ""))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if kind, _ := mcp.KindOf(err); kind == mcp.KindStoreUnavailable && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "2") // a store without a leader has one again within seconds
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// The schemes of an Authorization header with an access token, in lower case.
const (
	Bearer = "bearer"
	DPoP   = "dpop" // RFC 9449 §7.1
)

// Scheme returns the scheme of a request's Authorization header in lower case, "" without one.
func Scheme(h http.Header) string {
	scheme, _, _ := strings.Cut(h.Get("Authorization"), " ")
	return strings.ToLower(scheme)
}

// bearer returns the token of an Authorization header, or "" where there is
// none or it has another scheme.
func bearer(h http.Header) string {
	if scheme := Scheme(h); scheme != Bearer && scheme != DPoP {
		return ""
	}
	_, token, _ := strings.Cut(h.Get("Authorization"), " ")
	return strings.TrimSpace(token)
}

// WithPrincipal returns a context with the caller, by its name only.
func WithPrincipal(ctx context.Context, principal string) context.Context {
	return identity.With(ctx, &identity.Identity{Principal: principal})
}

// Principal returns the principal of a request: the one from Authenticate, or mcp.LocalPrincipal if
// there is no authentication.
func Principal(ctx context.Context) string { return identity.From(ctx).Principal }

// hostname returns a host without its port and without the brackets of an IPv6
// address.
func hostname(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// clip bounds the text of an unauthenticated client before it goes into a message.
func clip(s string) string { return text.Fit(s, 101) }
