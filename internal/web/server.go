package web

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/signin"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/sse"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// The HTTP server answers "shutting down" after the last call has ended, so that clients that call
// again at once get that answer on their open connection, and not its end. It waits for linger, and
// where there were calls, until their connections are closed or lingerBusy is over: a client may be
// slow to call again.
const (
	linger     = 100 * time.Millisecond
	lingerBusy = 500 * time.Millisecond
	lingerStep = 5 * time.Millisecond
)

// A Server serves a gateway over HTTP.
//
//	request ─▶ draining? ─▶ guard: Host, Origin, token ─┬─▶ /mcp             streamable.Server ─┐
//	                                                    ├─▶ /sse, /messages  sse.Server ────────┴─▶ front
//	                                                    ├─▶ /mcp/PROFILE     profiles ─▶ streamable.Server ─▶ front
//	                                                    ├─▶ /mcps/NAME/mcp   passthrough.Router ─▶ upstream
//	                                                    ├─▶ /agents          registry ─▶ upstreams
//	                                                    ├─▶ /socket.io/, /smcp/  hub ─▶ Computers
//	                                                    ├─▶ /console         console, a page
//	                                                    ├─▶ /api/v1/         api ─▶ Gateway, for viewers and operators
//	                                                    └─▶ /status, /healthz, /catalog, /stats, /metrics, /
//
// Apply replaces the routes and guards when the configuration changes. Servers and the router keep
// their state. A Server is an http.Handler, so other listeners may also serve it.
type Server struct {
	gateway  *gateway.Gateway
	log      *slog.Logger
	listener *Listener // nil if the caller listens
	base     string    // URL without a path

	front  *gateway.Front
	routes atomic.Pointer[http.Handler] // behind the guards
	quiet  atomic.Pointer[func()]       // ends the streams of viewers and operators

	stream   *endpoint
	profiles *profiles
	sse      *sse.Server
	router   *passthrough.Router
	http     *http.Server

	attached *attached
	presence presence
	signIns  *signin.Pages // made by the first Apply
	desk     *api.Desk     // operators' tokens, which a reload does not end
	machine  api.Machine   // operations of operators; without members they change no file
	token    string        // opens /mcp, in addition to the tokens of auth
	callers  known
	streams  guard.Streams // end with the credentials of their callers

	cluster *cluster.Node // nil: this gateway is one node
	link    *link.Server  // nil until other nodes can reach this one
	self    self

	draining atomic.Bool
	conns    atomic.Int64   // open connections of http
	ended    chan struct{}  // closed when the listener has stopped accepting
	door     sync.WaitGroup // serves the door of the listener
}

// New returns a Server for a gateway and a configuration. Start makes it serve at l. Operators change m
// in the console and by the API.
func New(g *gateway.Gateway, c *config.Config, l *Listener, m api.Machine, log *slog.Logger) *Server {
	return build(g, c, l, l.Local(), m, log)
}

// NewHandler returns a Server without a Listener. The caller serves its ServeHTTP at base, a URL
// without a path, and must not call Start.
func NewHandler(g *gateway.Gateway, c *config.Config, base string, m api.Machine, log *slog.Logger) *Server {
	return build(g, c, nil, base, m, log)
}

func build(g *gateway.Gateway, c *config.Config, l *Listener, base string, m api.Machine, log *slog.Logger) *Server {
	f := &Server{gateway: g, front: gateway.NewFront(g), machine: m, desk: api.NewDesk(time.Now), log: log, listener: l, base: base, token: rand.Text(), ended: make(chan struct{})}
	body := int64(c.HTTP.MaxBodyBytes)
	f.attached = &attached{handler: policy.WithinProfile(g.Config, f.front), log: log, max: int(body), memory: g.Data.Memory, conns: map[*mcp.Conn]bool{}}
	at := func(path string) *endpoint {
		return newEndpoint(g.Store, path, streamable.ServerOptions{
			Handler: f.front, SessionIdle: c.HTTP.SessionIdle, KeepAlive: keepAlive(c), MaxBody: body, Memory: g.Data.Memory, Logger: log,
			MaxSessions: c.HTTP.MaxSessions, OnSession: g.Reports.Sessions.On,
		})
	}
	f.stream, f.profiles = at("/mcp"), newProfiles(func(name string) *endpoint { return at("/mcp/" + name) }, log)
	old := sse.ServerOptions{Handler: policy.WithinProfile(g.Config, f.front), KeepAlive: keepAlive(c), MaxBody: body, Memory: g.Data.Memory, Logger: log}
	opts := g.RouterOptions()
	opts.SessionIdle, opts.KeepAlive, opts.MaxBody = c.HTTP.SessionIdle, keepAlive(c), body
	opts.MaxSessions = c.HTTP.MaxSessions
	f.cluster = g.Store.Node()
	old.NewID = func() string { return cluster.NewID(f.cluster) }
	shared := g.Store.Lasts() == store.Cluster
	if shared {
		opts.Locate, opts.Elsewhere = locating(f.cluster, body, g.Data.Memory), elsewhere(f.cluster)
		cluster.Describe(f.cluster, func() cluster.Self { return f.self.tell(f) })
		cluster.OnDrain(f.cluster, func() { f.streams.Drain(drainStreams) })
	}
	f.sse = sse.NewServer(old)
	f.router = passthrough.New(opts)
	f.callers = newKnown(f, g, shared)
	f.http = httpserver.New(http.HandlerFunc(f.ServeHTTP), log)
	f.http.ConnState = counting(&f.conns)
	f.Apply(nil, c)
	if l, trust := f.cluster.Listener(); l != nil {
		f.Join(l, trust) // other nodes may have sent requests for this one already
	}
	return f
}

// MCP returns the Handler of /mcp; each request uses the current configuration.
func (f *Server) MCP() mcp.Handler { return f.front }

// keepAlive converts the configured interval of stream comments. In the configuration zero disables
// them; in the transports zero means the default.
func keepAlive(c *config.Config) time.Duration {
	if c.HTTP.KeepAlive <= 0 {
		return 365 * 24 * time.Hour
	}
	return c.HTTP.KeepAlive
}

// Start serves at the Listener in the background.
func (f *Server) Start() {
	if f.listener.door != nil {
		f.door.Go(func() {
			if err := f.http.Serve(f.listener.door); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				f.log.Error("the listener for this machine failed", "err", err)
			}
		})
	}
	go func() {
		defer close(f.ended)
		if err := f.http.Serve(f.listener.accepting()); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			f.log.Error("the listener failed", "address", f.listener.Addr().String(), "err", err)
		}
	}()
}

// Done returns a channel that is closed when the Listener has stopped.
func (f *Server) Done() <-chan struct{} { return f.ended }

// Token returns the token of this run that opens /mcp to weir attach where tokens are configured.
// Only the user who runs the gateway may know it.
func (f *Server) Token() string { return f.token }

// ServeHTTP implements http.Handler.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.presence.start(r)()
	if r.ProtoMajor == 2 {
		w = newMultiplexed(w, &f.draining)
	}
	defer f.self.busy(r)()
	link.Strip(r.Header) // other nodes come by the peer link
	if f.draining.Load() {
		// This response is the last one on its connection. It waits until the listener is closed:
		// otherwise the client could reconnect first and be cut off.
		select {
		case <-f.ended:
		case <-r.Context().Done():
		}
		w.Header().Set("Connection", "close")
	}
	(*f.routes.Load()).ServeHTTP(w, r)
}

// Apply implements gateway.Face: it rebuilds everything that depends on the configuration.
func (f *Server) Apply(old, c *config.Config) {
	f.front.Apply(c)
	auth := c.Auth
	if old != nil && !auth.Required() && f.listener != nil && !address.LoopbackAddr(f.listener.Addr()) {
		// The new configuration was validated with its own listen address, but the old listener is
		// still in use.
		f.log.Error("auth was removed, but weir still listens for other machines: every request is refused until it is restarted", "listen", f.listener.Addr().String())
		auth.Tokens = []config.Token{{Name: "nobody"}} // of which there is no token
	}
	f.gateway.Data.Plane.SetBase(planeURL(c, f.base))
	f.callers.apply(c)
	closed, metrics := f.guardOptions(c, &auth), f.guardOptions(c, &auth)
	closed.Admit, metrics.Admit = admitToAll(auth), admitToMetrics(auth)
	open := guard.New(f.guardOptions(c, &config.Auth{}))
	behind := guard.New(closed)
	pages := closed // for requests of the console's page, whose person may have signed in
	pages.Login = f.loggedIn(c.PublicURL)
	console := guard.New(pages)
	mux := f.mux(c, open, behind, auth.Required())
	mux.Handle(ArtifactPath, f.wholly(console)(http.HandlerFunc(f.serveArtifact)))
	f.mountSignIns(mux, old, c, &auth)
	f.callers.mount(mux, f, c)
	quiet := f.mountAPI(mux, open, console, c, auth)
	front := guard.New(attachable(pages, f.token))
	f.attached.follow(front, auth)
	f.mountProfiles(mux, front, behind, c)
	agents := &gated{f.agentGates(front), f.stream.front}
	mux.Handle("/mcp", agents)
	mux.Handle("/metrics", guard.New(metrics).Wrap(f.gateway.Reports.Metrics.Handler()))
	metadata := f.metadata(c)
	mux.Handle(access.MetadataPath, metadata)
	mux.Handle(access.MetadataPath+"/", metadata)
	f.streams.Follow(admits(front, auth))
	var routes http.Handler = &paths{located: f.gateway.Auditor.Enabled() || asksSource(&c.Policy), agents: agents, routed: &gated{[]gate{{"guard", behind.Pass}}, f.router}, mux: mux}
	f.routes.Store(&routes)
	if before := f.quiet.Swap(&quiet); before != nil {
		(*before)()
	}
}

// admitToMetrics returns the guard.Options.Admit of /metrics.
func admitToMetrics(auth config.Auth) func(id *identity.Identity) error {
	return func(id *identity.Identity) error {
		if principal := id.Principal; !auth.SeesMetrics(principal) && !id.HasRole(callers.RoleOperator) {
			if id.Issuer != "" {
				return mcp.Errorf(mcp.KindPermissionDenied, "/metrics tells of all callers: %q needs the role operator (auth.roles.operator)", principal)
			}
			return mcp.Errorf(mcp.KindPermissionDenied, "the token of %q is for single agents: /metrics has figures of all agents; metrics: true next to auth.tokens[].agents opens it", principal)
		}
		return nil
	}
}

// admitToAll returns the guard.Options.Admit of all paths except /metrics.
func admitToAll(auth config.Auth) func(id *identity.Identity) error {
	return func(id *identity.Identity) error {
		if principal := id.Principal; auth.MetricsOnly(principal) {
			return mcp.Errorf(mcp.KindPermissionDenied, "the token of %q is only for /metrics: auth.tokens[].agents says what else a token with metrics: true opens", principal)
		}
		return nil
	}
}

// mux routes requests. All paths are behind the closed guard except: the page and scripts, which
// show strangers only name, version and URL; the liveness answer; and the hub and table URLs, which
// check credentials of their own.
func (f *Server) mux(c *config.Config, open, closed *guard.Guard, tokens bool) *http.ServeMux {
	mux := http.NewServeMux()
	all := f.wholly(closed)
	mux.Handle("/mcp/", closed.Wrap(f.router))
	mux.Handle("/mcps/", closed.Wrap(f.router))
	mountClientDocuments(mux, open, c.PublicURL)
	mux.Handle("/sse", &gated{f.surfaces(closed, gate{"mode", inMode}), f.sse})
	mux.Handle("/messages", &gated{f.surfaces(closed), near(f.cluster, f.log, func(r *http.Request) string { return r.URL.Query().Get("sessionId") }, traced(f.sse))})
	f.mountAgents(mux, open, closed)
	f.mountPlane(mux, open, closed)
	hub := near(f.cluster, f.log, func(r *http.Request) string { return r.URL.Query().Get("sid") }, f.gateway.Offices.Handler()) // it checks credentials itself
	f.gateway.Offices.Route(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		link.Strip(r.Header) // as at the common listener
		hub.ServeHTTP(w, r)
	}))
	mux.Handle("/socket.io/", open.Wrap(hub))
	mux.Handle("/smcp/", open.Wrap(hub))
	health := aliveOr(open.Wrap(http.HandlerFunc(f.serveAlive)), closed.Wrap(f.atNode(f.serveHealth)), func(r *http.Request) bool {
		if fromNode(r.Context()) {
			return false // that node has looked
		}
		if tokens {
			return r.Header.Get("Authorization") == ""
		}
		return f.gateway.Offices.Hides(r)
	})
	mux.Handle("/healthz", withInstance(f.gateway.Run.Instance, health))
	mux.Handle("/readyz", open.Wrap(http.HandlerFunc(f.serveReady)))
	mountConsole(mux, open, c)
	f.mountCards(mux, c)
	mux.Handle(access.WhoamiPath, closed.Wrap(http.HandlerFunc(f.serveWhoami)))
	mux.Handle("/catalog", all(f.atNode(f.serveCatalog)))
	mux.Handle(ToolsPath, all(http.HandlerFunc(f.serveTools)))
	mux.Handle("/stats", closed.Wrap(f.atNode(f.serveStats)))
	mux.Handle("/health", health)
	mux.Handle("/", open.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.servePage(w, r, tokens) })))
	return mux
}

// attachable returns guard options that also take a token of this run, for the local principal.
func attachable(o guard.Options, token string) guard.Options {
	known := o.Authenticate
	if known == nil {
		return o
	}
	o.Authenticate = func(r *http.Request, bearer string) (*identity.Identity, error) {
		if subtle.ConstantTimeCompare([]byte(bearer), []byte(token)) == 1 {
			return &identity.Identity{Principal: mcp.LocalPrincipal}, nil
		}
		return known(r, bearer)
	}
	return o
}

// aliveOr serves alive to strangers: requests without a token if tokens are configured, and
// requests that the hub would not trust. Process supervisors need to know only that weir is alive.
func aliveOr(alive, health http.Handler, stranger func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stranger(r) {
			alive.ServeHTTP(w, r)
			return
		}
		health.ServeHTTP(w, r)
	})
}

// serveAlive reports that this process answers, and nothing else.
func (f *Server) serveAlive(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	status, code := gateway.StatusOK, http.StatusOK
	if f.draining.Load() {
		status, code = gateway.StatusStopping, http.StatusServiceUnavailable
	}
	httpserver.WriteJSON(w, code, map[string]string{"status": status})
}

// serveReady reports whether a balancer should send new requests to this process.
func (f *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	answer, code := map[string]string{"status": gateway.StatusOK}, http.StatusServiceUnavailable
	switch {
	case f.draining.Load():
		answer["status"] = gateway.StatusStopping
	case f.cluster.Draining():
		answer["status"] = statusDraining
	case !f.cluster.Ready():
		var leave bool
		if answer["status"], leave = apart(f.cluster); !leave {
			code = http.StatusOK
		}
		answer["reason"] = nodestore.Trouble(f.cluster)
	default:
		code = http.StatusOK
	}
	httpserver.WriteJSON(w, code, answer)
}

// getOrHead refuses all other methods.
func getOrHead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}

func (f *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	h := f.gateway.Health()
	if f.gateway.Config().Auth.Scoped(guard.Principal(r.Context())) {
		h.Hub, h.Config = nil, "" // the caller may not see offices or file paths
	}
	for name := range h.Upstreams {
		if !f.gateway.Config().Auth.Reaches(guard.Principal(r.Context()), name) {
			delete(h.Upstreams, name)
		}
	}
	f.gateway.Views.Hide(r.Context(), h)
	code := http.StatusOK
	if f.draining.Load() {
		h.Status, code = gateway.StatusStopping, http.StatusServiceUnavailable
	}
	httpserver.WriteJSON(w, code, h)
}

// serveStats reports the cost of calls: of all principals to operators, and of the caller to others. In a
// cluster it counts the calls of all nodes, or of the node that the request names.
func (f *Server) serveStats(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	_, _, carried := link.Caller(r.Context())
	httpserver.WriteJSON(w, http.StatusOK, f.gateway.Reports.Usage.OfNodes(r.Context(), carried || r.URL.Query().Has("node")))
}

// Shutdown waits for running calls until ctx ends and answers the rest with an error. It closes the
// listener first, so that clients do not reconnect. Later requests on open connections get
// "shutting down", and their connections close. When it returns, the whole Server has stopped.
func (f *Server) Shutdown(ctx context.Context) error {
	retire(ctx, f.cluster)
	f.draining.Store(true)
	if f.listener != nil {
		f.listener.shut()
	} else {
		close(f.ended) // there is no listener to wait for
	}
	patience := linger
	if f.presence.busy() {
		patience = lingerBusy
	}
	(*f.quiet.Load())()
	var all sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	try := func(end func(context.Context) error) {
		if err := end(ctx); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		}
	}
	for _, end := range []func(context.Context) error{f.stream.Shutdown, f.profiles.Shutdown, f.sse.Shutdown, f.router.Shutdown, f.attached.Shutdown} {
		all.Go(func() { try(end) })
	}
	all.Wait()
	try(f.gateway.Offices.Shutdown) // calls in flight may be at a Computer
	f.callers.Close()
	f.signIns.Close()
	unlink(ctx, f.link)
	if failed != nil {
		f.log.Warn("some requests did not end", "err", failed)
	}
	if f.listener == nil {
		return nil
	}
	f.linger(ctx, patience)
	if err := f.shutHTTP(ctx); err != nil {
		_ = f.http.Close() // all remaining requests have been answered
	}
	<-f.ended
	f.door.Wait()
	return nil
}

// shutHTTP closes idle connections and waits for the others, on which the last answers are still being
// sent: for a second, or for linger where ctx ends before.
func (f *Server) shutHTTP(ctx context.Context) error {
	patience := time.Second
	if f.link != nil {
		patience = time.Minute // other nodes may still answer requests that came here
	}
	if end, ok := ctx.Deadline(); ok {
		patience = max(linger, min(patience, time.Until(end)))
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return f.http.Shutdown(closing)
}

// linger waits for so long, and no longer than connections are open.
func (f *Server) linger(ctx context.Context, patience time.Duration) {
	end := time.NewTimer(patience)
	defer end.Stop()
	look := time.NewTicker(lingerStep)
	defer look.Stop()
	for f.conns.Load() > 0 {
		select {
		case <-look.C:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// counting counts the open connections of an HTTP server.
func counting(open *atomic.Int64) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, now http.ConnState) {
		switch now {
		case http.StateNew:
			open.Add(1)
		case http.StateHijacked, http.StateClosed:
			open.Add(-1)
		}
	}
}

// mountAgents adds the paths for agents and for programs that call agents.
func (f *Server) mountAgents(mux *http.ServeMux, open, closed *guard.Guard) {
	status := passthrough.NewStatus(passthrough.StatusOptions{
		Agents: f.gateway.Views.Agents, Name: part.ServerName, Version: f.gateway.Run.Version, Started: f.gateway.Run.Started, Logger: f.log,
	})
	mux.Handle("/status", open.Wrap(http.HandlerFunc(status.Page)))
	mux.Handle("/status/data", closed.Wrap(http.HandlerFunc(status.Data)))
	mux.Handle(passthrough.BrowserClientPath, open.Wrap(passthrough.BrowserClient()))
	mux.Handle(passthrough.TaskStatusPath, closed.Wrap(f.router))
	mux.Handle(registry.Path, closed.Wrap(f.gateway.Agents))
	mux.Handle(registry.Path+"/", closed.Wrap(f.gateway.Agents))
}

// serveCatalog answers /catalog.
func (f *Server) serveCatalog(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	var since time.Time
	if text := r.URL.Query().Get("since"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			guard.WriteError(w, http.StatusBadRequest, "", mcp.Errorf(mcp.KindInvalidParams, "since must be a time such as 2026-07-28T10:00:00Z"))
			return
		}
	}
	httpserver.WriteJSON(w, http.StatusOK, f.gateway.Views.Catalog(r.Context(), since))
}

// InstanceHeader is the header of /healthz with the id of this run of the gateway. It is not
// secret: strangers also get it.
const InstanceHeader = "Weir-Instance"

// withInstance adds InstanceHeader to the responses of next.
func withInstance(instance string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(InstanceHeader, instance)
		next.ServeHTTP(w, r)
	})
}
