package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// Path is the path of the API, with a slash at its end.
const Path = "/api/v1/"

// operator is the role that the API wants.
const operator = "operator"

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// Options connect an API with its gateway.
type Options struct {
	// Servers are the servers of the gateway.
	Servers Servers
	// Log has the lines of the servers.
	Log *serverlog.Book
	// Approvals has the calls that wait for a yes.
	Approvals *approval.Room
	// Elsewhere has those that wait at the other nodes of a cluster; nil: the gateway is one node.
	Elsewhere Elsewhere
	// Machine changes the configuration and the machine.
	Machine Machine
	// Definitions compare the definitions of servers with weir.lock.
	Definitions Definitions
	// Settings returns the configuration in effect: the keys that start with key, without defaults if
	// set is true. Its answers have no secret. Nil: the gateway tells none.
	Settings func(key string, set bool) (file string, all []Setting)
	// Audit is the audit log; nil: there is none.
	Audit Audit
	// Changed records a command's change of a credential; nil: there is no audit log.
	Changed func(ctx context.Context, c audit.CredentialChange) error
	// Key is the operator's key, which callers on this machine show; "" admits no key.
	Key identity.Secret
	// PublicURL is the URL of the gateway for browsers. Its pages are the gateway's own, also where a
	// proxy changes the Host; "" is none.
	PublicURL string
	// Tokens checks the bearer token or the client certificate of a caller and calls next with the
	// caller's identity in the context. Nil means that the configuration knows no callers.
	Tokens func(next http.Handler) http.Handler
	// Login reports whether a request without a token is of a browser whose person has signed in,
	// whom Tokens knows. Nil means that none has.
	Login func(r *http.Request) bool
	// Operates reports whether a principal of Tokens is an operator. A principal whose identity has
	// the role is one as well. Nil admits only by role.
	Operates func(principal string) bool
	// Operated records an operation: its kind, the decision about an approval, and the server, the tool
	// and the detail that it was about. It may be nil.
	Operated func(ctx context.Context, kind audit.Kind, decision, server, tool, detail string)
	// Calls serves messages of MCP, as /mcp does; nil answers 404.
	Calls http.Handler
	// Cluster has the nodes that share the store; nil: the gateway is one node.
	Cluster Cluster
	// Checked reports whether another node of the cluster has sent a request, and has checked its caller and the
	// caller's rights. Nil means that none has.
	Checked func(ctx context.Context) bool
	// Usage returns the cost of calls that the viewer of a request may see: of all nodes, or, if own is true, only
	// of this node. If it is nil, Look.Gateway has the cost.
	Usage func(ctx context.Context, own bool) UsageOfNodes
	// Events has the events of all gateways that share a store; nil: there is no stream of them.
	Events Events
	// Look has the sources of the answers for viewers.
	Look Look
	// Desk gives the tokens of operators for codes; nil makes one that ends with the API.
	Desk *Desk
	// Logger gets the operations, with the principal; nil discards them.
	Logger *slog.Logger
}

// An API is an http.Handler for all paths below Path. The caller checks the Host header before. It is
// safe for concurrent use.
type API struct {
	o       Options
	mux     *http.ServeMux
	table   map[string]methods // of the patterns of mux
	desk    *Desk
	guarded http.Handler // mux, for viewers
	tokens  http.Handler // checks who calls, then serves; nil: the configuration knows no callers
	closing context.Context
	close   context.CancelFunc
}

// New returns an API. The caller must call Close.
func New(o Options) *API {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Operated == nil {
		o.Operated = func(context.Context, audit.Kind, string, string, string, string) {}
	}
	if o.Desk == nil {
		o.Desk = NewDesk(time.Now)
	}
	a := &API{o: o, mux: http.NewServeMux(), table: map[string]methods{}, desk: o.Desk}
	a.closing, a.close = context.WithCancel(context.Background())
	for _, r := range a.routes() {
		a.table[Path+r.path] = append(a.table[Path+r.path], r)
	}
	for pattern, all := range a.table {
		a.mux.Handle(pattern, all)
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, mcp.Errorf(mcp.KindNotFound, "there is no %s here", text.Line(r.URL.Path, 80)))
	})
	if o.Look.Guard != nil {
		a.guarded = o.Look.Guard(a.mux)
	}
	if o.Tokens != nil {
		a.tokens = o.Tokens(http.HandlerFunc(a.serveToken))
	}
	return a
}

// Close ends the streams. Their clients connect again to the API that takes this one's place.
func (a *API) Close() { a.close() }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.o.checked(r.Context()) {
		(&clustered{a}).serveChecked(w, r)
		return
	}
	if err := guard.OwnOrigin(r, a.o.PublicURL); err != nil {
		fail(w, err)
		return
	}
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	bearer = strings.TrimSpace(bearer)
	owners := owners{a.o.Key, a.desk}
	user := owners.by(bearer)
	known := user != nil
	_, pattern := a.mux.Handler(r)
	switch right := a.table[pattern].right(r.Method); {
	case right == mayExchange:
		a.mux.ServeHTTP(w, r)
	case (right == mayLook || right == mayCall) && a.guarded != nil && (!known || !local(r)):
		a.guarded.ServeHTTP(w, r)
	case a.tokens != nil && scheme == "" && (r.TLS != nil && len(r.TLS.PeerCertificates) > 0 || a.o.Login != nil && a.o.Login(r)):
		a.tokens.ServeHTTP(w, r) // a certificate or a login may name an operator
	case !strings.EqualFold(scheme, "Bearer") || bearer == "":
		a.challenge(w, "operating this gateway needs an operator, and the request names none")
	case known && !local(r):
		fail(w, mcp.Errorf(mcp.KindPermissionDenied, "the operator's key is for callers on this gateway's machine that use no proxy; from elsewhere, use a token with operator: true (auth.tokens[].operator)"))
	case known:
		ctx := guard.CheckedBy(identity.With(r.Context(), user), owners.check)
		a.mux.ServeHTTP(w, r.WithContext(context.WithValue(ctx, ownerKey{}, true)))
	case a.tokens != nil:
		a.tokens.ServeHTTP(w, r)
	default:
		a.challenge(w, "the bearer token is not the operator's key of this gateway")
	}
}

// ownerKey is the context key of the value that owner reads.
type ownerKey struct{}

// owner reports whether the caller is the user who runs the gateway, by the operator's key or by a
// code for it.
func owner(ctx context.Context) bool { return ctx.Value(ownerKey{}) != nil }

// serveToken serves a caller whom the configuration knows. Auditors may read only the audit log.
func (a *API) serveToken(w http.ResponseWriter, r *http.Request) {
	id := identity.From(r.Context())
	if r.URL.Path == auditPath && id.HasRole(auditor) {
		a.mux.ServeHTTP(w, r)
		return
	}
	if !a.operates(id) {
		fail(w, mcp.Errorf(mcp.KindPermissionDenied, "%q may not operate this gateway: set operator: true for this token (auth.tokens[].operator), name the caller or a group of it in auth.roles.operator, or use the commands of weir as the user who runs the gateway", text.Line(id.Principal, 80)))
		return
	}
	if _, pattern := a.mux.Handler(r); a.table[pattern].right(r.Method) == mayOwn {
		fail(w, mcp.Errorf(mcp.KindPermissionDenied, "this changes files of the user who runs the gateway, and the request shows the token of %q: use weir open or weir connect on that machine, as that user", text.Line(id.Principal, 80)))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// operates reports whether a caller is an operator.
func (a *API) operates(id *identity.Identity) bool {
	return id.HasRole(operator) || a.o.Operates != nil && a.o.Operates(id.Principal)
}

// challenge answers a request without a known operator.
func (a *API) challenge(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="weir operator"`)
	fail(w, mcp.Errorf(mcp.KindUnauthorized, "%s: the commands of weir show the key in operator.key of the state folder (weir help files), run by the user who runs the gateway; other callers need a token with operator: true (auth.tokens[].operator)", why))
}

// local reports whether a request comes from this machine. What a proxy on this machine sends on
// comes from elsewhere.
func local(r *http.Request) bool {
	ip, ok := address.Source(r.Header, r.RemoteAddr)
	return ok && ip.IsLoopback()
}

// A handler serves one path. The error becomes the response, so nothing may be written before it.
type handler func(w http.ResponseWriter, r *http.Request) error

// methods are the routes of one path, each with a method of its own. They implement http.Handler.
type methods []route

// of returns the route for a method, nil if there is none.
func (all methods) of(method string) *route {
	for i := range all {
		if all[i].method == method || all[i].method == http.MethodGet && method == http.MethodHead {
			return &all[i]
		}
	}
	return nil
}

// right returns the right that a caller needs for a method. A method that the path does not have needs
// the right of the first one, so that others learn nothing.
func (all methods) right(method string) right {
	if r := all.of(method); r != nil {
		return r.right
	}
	if len(all) > 0 {
		return all[0].right
	}
	return ""
}

// ServeHTTP implements http.Handler. A change needs JSON: a browser cannot send that content type to
// another origin without asking first.
func (all methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := all.of(r.Method)
	if one == nil {
		var names []string
		for i := range all {
			names = append(names, all[i].method)
		}
		w.Header().Set("Allow", strings.Join(names, ", "))
		guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is for %s requests", r.URL.Path, strings.Join(names, " and ")))
		return
	}
	if one.method != http.MethodGet {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			guard.WriteError(w, http.StatusUnsupportedMediaType, "", mcp.Errorf(mcp.KindInvalidRequest, "a change needs the header Content-Type: application/json, and a body such as {}"))
			return
		}
	}
	if err := one.serve(w, r); err != nil {
		fail(w, err)
	}
}

// fail answers with an error of the table of errors.
func fail(w http.ResponseWriter, err error) {
	kind, _ := mcp.KindOf(err)
	status := kind.Info().HTTP
	if errors.Is(err, ErrChanged) || errors.Is(err, ErrPublished) {
		status, err = http.StatusConflict, mcp.Errorf(mcp.KindInvalidRequest, "%s", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	guard.WriteError(w, status, "", err)
}

// decode reads the body of a change. Unknown members are errors, and an empty body is {}.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &large):
		return mcp.Errorf(mcp.KindTooLarge, "the body is over the bound of %d bytes", maxBody)
	case err == nil && d.More():
		return mcp.Errorf(mcp.KindInvalidRequest, "the body has more than one JSON value")
	case err != nil:
		return mcp.Errorf(mcp.KindInvalidRequest, "the body: %s", text.Line(err.Error(), 200))
	}
	return nil
}

// write answers with a value. Invisible characters are escaped, because people read the answers in
// terminals.
func write(w http.ResponseWriter, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(visible.JSON(raw), '\n')) // the client may have disconnected
	return nil
}
