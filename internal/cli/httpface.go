package cli

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/address"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/router"
	"github.com/weir-mcp/weir/internal/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/sse"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Bounds of the HTTP server. Responses have no bound in time, because streams
// last; what writes them notices a client that does not read.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second // a request with its body; streams lift it
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// linger is how long the HTTP server still answers, with "shutting down", after
// the last call has been answered: clients that are quick to call again learn on
// their own connection that it is over.
const linger = 100 * time.Millisecond

// An httpFace is a gateway on the web.
//
//	request ─▶ draining? ─▶ guard: Host, Origin, token ─┬─▶ /mcp             streamable.Server ─┐
//	                                                    ├─▶ /sse, /messages  sse.Server ────────┴─▶ front
//	                                                    ├─▶ /mcps/NAME/mcp   router.Router ─▶ upstream
//	                                                    ├─▶ /agents          registry ─▶ upstreams
//	                                                    ├─▶ /socket.io/, /smcp/  hub ─▶ Computers
//	                                                    ├─▶ /console         console ─▶ engine
//	                                                    └─▶ /status, /healthz, /catalog, /stats, /metrics, /
//
// front and guard are made anew when the configuration changes; what has state
// (servers, router) stays.
type httpFace struct {
	engine   *engine
	log      *logging
	listener *gate
	base     string // URL without a path

	front  atomic.Pointer[mcp.Handler]
	routes atomic.Pointer[http.Handler] // guarded
	quiet  atomic.Pointer[func()]       // ends the streams of the console

	stream *streamable.Server
	sse    *sse.Server
	router *router.Router
	page   *template.Template
	http   *http.Server

	draining atomic.Bool
	ended    chan struct{}
}

func newHTTPFace(e *engine, c *config.Config, listener *gate, log *logging) *httpFace {
	f := &httpFace{engine: e, log: log, listener: listener, base: "http://" + dialable(listener.Addr().String()),
		page: template.Must(template.New("page").Parse(pageSource)), ended: make(chan struct{})}
	handler := mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		return (*f.front.Load()).Serve(ctx, r)
	})
	body := int64(c.HTTP.MaxBodyBytes)
	f.stream = streamable.NewServer(streamable.ServerOptions{
		Handler: handler, SessionIdle: c.HTTP.SessionIdle, KeepAlive: keepAlive(c), MaxBody: body, Memory: e.holdings.pool, Logger: log.Logger,
	})
	f.sse = sse.NewServer(sse.ServerOptions{Handler: handler, KeepAlive: keepAlive(c), MaxBody: body, Memory: e.holdings.pool, Logger: log.Logger})
	find, names := e.offices.finding(e.manager)
	f.router = router.New(router.Options{
		Find: e.bodies.finding(find), Absent: absent(e.manager), Names: names, Allow: e.agents.reaches, Judge: judge{e}, Limits: e.agents.limits, Sign: e.agents.sign, Loops: e.agents.loops, Observer: observer{e, &toolNames{}},
		Registered: e.agents.registry.Transport, AgentHeaders: func() []string { return e.config.Load().Agents.Headers },
		SessionIdle: c.HTTP.SessionIdle, KeepAlive: keepAlive(c), MaxBody: body, Memory: e.holdings.pool, Logger: log.Logger,
	})
	f.http = &http.Server{
		Handler:           http.HandlerFunc(f.serve),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	f.apply(nil, c)
	return f
}

// keepAlive is the configuration's time between comments on a stream. Zero
// sends none, which the transports take for their default.
func keepAlive(c *config.Config) time.Duration {
	if c.HTTP.KeepAlive <= 0 {
		return 365 * 24 * time.Hour
	}
	return c.HTTP.KeepAlive
}

func (f *httpFace) start() error {
	go func() {
		defer close(f.ended)
		if err := f.http.Serve(f.listener); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			f.log.Error("the listener failed", "address", f.listener.Addr().String(), "err", err)
		}
	}()
	return nil
}

func (f *httpFace) done() <-chan struct{} { return f.ended }

// serve is the first to see a request.
func (f *httpFace) serve(w http.ResponseWriter, r *http.Request) {
	if f.draining.Load() {
		// The answer is the last on its connection, and it waits until the
		// listener is closed: who is told to go away must not come back in
		// between and be cut off.
		select {
		case <-f.ended:
		case <-r.Context().Done():
		}
		w.Header().Set("Connection", "close")
	}
	(*f.routes.Load()).ServeHTTP(w, r)
}

// apply makes what depends on the configuration.
func (f *httpFace) apply(old, c *config.Config) {
	front := f.engine.newFront(c, frontOptions{})
	f.front.Store(&front)
	auth := c.Auth
	if old != nil && len(auth.Tokens) == 0 && !address.LoopbackAddr(f.listener.Addr()) {
		// The new configuration was checked with its own listen address; the
		// listener in use is still the old one.
		f.log.Error("auth.tokens are gone, but weir still listens for other machines: nobody is let in until it is restarted", "listen", f.listener.Addr().String())
		auth.Tokens = []config.Token{{Name: "nobody"}}
	}
	f.engine.plane.at(planeURL(c, f.base))
	closed, metrics := guardOptions(c, auth, f.log.Logger), guardOptions(c, auth, f.log.Logger)
	closed.Admit, metrics.Admit = admitToAll(auth), admitToMetrics(auth)
	open := guard.New(guardOptions(c, config.Auth{}, f.log.Logger))
	mux, quiet := f.mux(c, open, guard.New(closed), len(auth.Tokens) > 0)
	mux.Handle("/metrics", guard.New(metrics).Wrap(f.engine.metrics.Handler()))
	routes := http.Handler(mux)
	f.routes.Store(&routes)
	if before := f.quiet.Swap(&quiet); before != nil {
		(*before)()
	}
}

// guardOptions are the checks of a configuration.
func guardOptions(c *config.Config, auth config.Auth, log *slog.Logger) guard.Options {
	o := guard.Options{Hosts: c.HTTP.AllowedHosts, Origins: c.HTTP.AllowedOrigins, HostsKey: "http.allowed_hosts", OriginsKey: "http.allowed_origins", Logger: log}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		o.Hosts = append(append([]string(nil), o.Hosts...), u.Hostname())
		o.Origins = append(append([]string(nil), o.Origins...), u.Scheme+"://"+u.Host)
	}
	if len(auth.Tokens) > 0 {
		o.Authenticate = auth.Lookup
	}
	return o
}

// admitToMetrics is guard.Options.Admit for /metrics.
func admitToMetrics(auth config.Auth) func(principal string) error {
	return func(principal string) error {
		if !auth.SeesMetrics(principal) {
			return mcp.Errorf(mcp.KindPermissionDenied, "the token of %q is for single agents: /metrics tells of all of them; metrics: true beside auth.tokens[].agents opens it", principal)
		}
		return nil
	}
}

// admitToAll is guard.Options.Admit for everything but /metrics.
func admitToAll(auth config.Auth) func(principal string) error {
	return func(principal string) error {
		if auth.MetricsOnly(principal) {
			return mcp.Errorf(mcp.KindPermissionDenied, "the token of %q is for /metrics alone: auth.tokens[].agents says what else a token with metrics: true opens", principal)
		}
		return nil
	}
}

// mux routes requests. Everything is behind the closed guard but pages and scripts,
// which tell strangers no more than what runs here, the word that weir lives, and
// what asks for credentials of its own: the hub, and tables behind tokens.
// quiet ends the streams of the console.
func (f *httpFace) mux(c *config.Config, open, closed *guard.Guard, tokens bool) (mux *http.ServeMux, quiet func()) {
	mux = http.NewServeMux()
	all := func(next http.Handler) http.Handler { return closed.Wrap(f.engine.agents.unscoped(next)) }
	// What reaches all upstreams must not be one of them. That is said before a token is
	// asked for, which weir would not show itself.
	front := func(next http.Handler) http.Handler { return f.engine.agents.loops.Refuse(all(next)) }
	mux.Handle("/mcp", front(f.stream))
	mux.Handle("/mcp/", closed.Wrap(f.router))
	mux.Handle("/mcps/", closed.Wrap(f.router))
	mux.Handle("/sse", front(f.sse))
	mux.Handle("/messages", front(f.sse))
	f.engine.agents.mount(mux, open, closed, f.router)
	f.mountPlane(mux, open, closed)
	hub := f.engine.offices.handler() // it asks for credentials itself
	mux.Handle("/socket.io/", open.Wrap(hub))
	mux.Handle("/smcp/", open.Wrap(hub))
	health := aliveOr(open.Wrap(http.HandlerFunc(f.serveAlive)), closed.Wrap(http.HandlerFunc(f.serveHealth)), func(r *http.Request) bool {
		if tokens {
			return r.Header.Get("Authorization") == ""
		}
		return f.engine.offices.hides(r)
	})
	mux.Handle("/healthz", withInstance(f.engine.instance, health))
	quiet = f.mountConsole(mux, open, all, c, tokens)
	mux.Handle("/catalog", all(http.HandlerFunc(f.serveCatalog)))
	mux.Handle("/stats", closed.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serveStats(w, r, tokens) })))
	mux.Handle("/health", health)
	mux.Handle("/", open.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.servePage(w, r, tokens) })))
	return mux, quiet
}

// aliveOr serves alive to strangers: to requests without a token where tokens are
// configured, and to those that the hub knows nothing of. What watches over
// processes needs to know no more than that one lives.
func aliveOr(alive, health http.Handler, stranger func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stranger(r) {
			alive.ServeHTTP(w, r)
			return
		}
		health.ServeHTTP(w, r)
	})
}

// serveAlive says that this process answers, and nothing else.
func (f *httpFace) serveAlive(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	status, code := statusOK, http.StatusOK
	if f.draining.Load() {
		status, code = statusStopping, http.StatusServiceUnavailable
	}
	writeJSON(w, code, map[string]string{"status": status})
}

// getOrHead refuses other methods.
func getOrHead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}

func (f *httpFace) serveHealth(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	h := f.engine.health()
	if f.engine.config.Load().Auth.Scoped(guard.Principal(r.Context())) {
		h.Hub, h.Config = nil, "" // who is in which office, and where files are, is not for it
	}
	for name := range h.Upstreams {
		if !f.engine.agents.reaches(guard.Principal(r.Context()), name) {
			delete(h.Upstreams, name)
		}
	}
	code := http.StatusOK
	if f.draining.Load() {
		h.Status, code = statusStopping, http.StatusServiceUnavailable
	}
	writeJSON(w, code, h)
}

// serveStats tells what calls cost: everybody's where there is one principal,
// else the caller's own.
func (f *httpFace) serveStats(w http.ResponseWriter, r *http.Request, tokens bool) {
	if !getOrHead(w, r) {
		return
	}
	writeJSON(w, http.StatusOK, f.engine.usageOf(guard.Principal(r.Context()), tokens))
}

// writeJSON answers with a value. People read such answers in terminals: what they
// would obey, or not show, is written as escapes.
func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	raw, err := json.Marshal(v)
	if err != nil { // weir's own types: cannot be
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(visible.JSON(raw), '\n')) // the client may be gone
}

// shutdown ends the face. The listener closes first, so that clients do not come
// back; what still comes on connections that are open is answered with "shutting
// down", and then the connection closes.
func (f *httpFace) shutdown(ctx context.Context) error {
	f.draining.Store(true)
	f.listener.shut()
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
	for _, end := range []func(context.Context) error{f.stream.Shutdown, f.sse.Shutdown, f.router.Shutdown} {
		all.Go(func() { try(end) })
	}
	all.Wait()
	try(f.engine.offices.shutdown) // what is in flight may be at a Computer
	if failed != nil {
		f.log.Warn("some requests did not end", "err", failed)
	}
	select {
	case <-time.After(linger):
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), linger)
	defer cancel()
	if err := f.http.Shutdown(closing); err != nil {
		_ = f.http.Close() // what is left has its answer
	}
	<-f.ended
	return nil
}
