package web

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/address"
	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/registry"
	"github.com/weir-mcp/weir/internal/router"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/sse"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// linger is how long the HTTP server still answers, with "shutting down", after
// the last call has been answered: clients that are quick to call again learn on
// their own connection that it is over.
const linger = 100 * time.Millisecond

// A Server is a gateway on the web.
//
//	request ─▶ draining? ─▶ guard: Host, Origin, token ─┬─▶ /mcp             streamable.Server ─┐
//	                                                    ├─▶ /sse, /messages  sse.Server ────────┴─▶ front
//	                                                    ├─▶ /mcps/NAME/mcp   router.Router ─▶ upstream
//	                                                    ├─▶ /agents          registry ─▶ upstreams
//	                                                    ├─▶ /socket.io/, /smcp/  hub ─▶ Computers
//	                                                    ├─▶ /console         console ─▶ Engine
//	                                                    └─▶ /status, /healthz, /catalog, /stats, /metrics, /
//
// front and guard are made anew when the configuration changes. What has state (servers, router)
// stays. A Server is an http.Handler, which may also serve on listeners of others.
type Server struct {
	engine   *app.Engine
	log      *slog.Logger
	listener *Listener // nil where others listen
	base     string    // URL without a path

	front  atomic.Pointer[mcp.Handler]
	routes atomic.Pointer[http.Handler] // guarded
	quiet  atomic.Pointer[func()]       // ends the streams of the console

	stream *streamable.Server
	sse    *sse.Server
	router *router.Router
	page   *template.Template
	http   *http.Server

	draining atomic.Bool
	ended    chan struct{} // closed when the listener takes no more
}

// New returns a Server of an engine under a configuration. It serves at l after Start.
func New(e *app.Engine, c *config.Config, l *Listener, log *slog.Logger) *Server {
	return build(e, c, l, "http://"+app.Dialable(l.Addr().String()), log)
}

// NewHandler returns a Server without a Listener: the caller serves its ServeHTTP, and base is the URL
// under which it does, without a path. Start must not be called.
func NewHandler(e *app.Engine, c *config.Config, base string, log *slog.Logger) *Server {
	return build(e, c, nil, base, log)
}

func build(e *app.Engine, c *config.Config, l *Listener, base string, log *slog.Logger) *Server {
	f := &Server{engine: e, log: log, listener: l, base: base, page: template.Must(template.New("page").Parse(pageSource)), ended: make(chan struct{})}
	body := int64(c.HTTP.MaxBodyBytes)
	f.stream = streamable.NewServer(streamable.ServerOptions{
		Handler: f.MCP(), SessionIdle: c.HTTP.SessionIdle, KeepAlive: keepAlive(c), MaxBody: body, Memory: e.Memory, Logger: log,
	})
	f.sse = sse.NewServer(sse.ServerOptions{Handler: f.MCP(), KeepAlive: keepAlive(c), MaxBody: body, Memory: e.Memory, Logger: log})
	opts := e.RouterOptions()
	opts.SessionIdle, opts.KeepAlive, opts.MaxBody = c.HTTP.SessionIdle, keepAlive(c), body
	f.router = router.New(opts)
	f.http = app.NewHTTPServer(http.HandlerFunc(f.ServeHTTP), log)
	f.Apply(nil, c)
	return f
}

// MCP returns the Handler of /mcp under the configuration that is in force at each request.
func (f *Server) MCP() mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		return (*f.front.Load()).Serve(ctx, r)
	})
}

// keepAlive is the configuration's time between comments on a stream. Zero
// sends none, which the transports take for their default.
func keepAlive(c *config.Config) time.Duration {
	if c.HTTP.KeepAlive <= 0 {
		return 365 * 24 * time.Hour
	}
	return c.HTTP.KeepAlive
}

// Start serves at the Listener.
func (f *Server) Start() {
	go func() {
		defer close(f.ended)
		if err := f.http.Serve(f.listener); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			f.log.Error("the listener failed", "address", f.listener.Addr().String(), "err", err)
		}
	}()
}

// Done returns a channel that is closed when the Listener has ended.
func (f *Server) Done() <-chan struct{} { return f.ended }

// ServeHTTP implements http.Handler.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// Apply makes what depends on the configuration: it is an app.Face.
func (f *Server) Apply(old, c *config.Config) {
	front := f.engine.Front(c)
	f.front.Store(&front)
	auth := c.Auth
	if old != nil && len(auth.Tokens) == 0 && f.listener != nil && !address.LoopbackAddr(f.listener.Addr()) {
		// The new configuration was checked with its own listen address; the
		// listener in use is still the old one.
		f.log.Error("auth.tokens are gone, but weir still listens for other machines: nobody is let in until it is restarted", "listen", f.listener.Addr().String())
		auth.Tokens = []config.Token{{Name: "nobody"}}
	}
	f.engine.Plane.SetBase(planeURL(c, f.base))
	closed, metrics := app.GuardOptions(c, auth, f.log), app.GuardOptions(c, auth, f.log)
	closed.Admit, metrics.Admit = admitToAll(auth), admitToMetrics(auth)
	open := guard.New(app.GuardOptions(c, config.Auth{}, f.log))
	mux, quiet := f.mux(c, open, guard.New(closed), len(auth.Tokens) > 0)
	mux.Handle("/metrics", guard.New(metrics).Wrap(f.engine.Metrics.Handler()))
	routes := http.Handler(mux)
	f.routes.Store(&routes)
	if before := f.quiet.Swap(&quiet); before != nil {
		(*before)()
	}
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
func (f *Server) mux(c *config.Config, open, closed *guard.Guard, tokens bool) (mux *http.ServeMux, quiet func()) {
	mux = http.NewServeMux()
	all := func(next http.Handler) http.Handler { return closed.Wrap(f.unscoped(next)) }
	// What reaches all upstreams must not be one of them. That is said before a token is
	// asked for, which weir would not show itself.
	front := func(next http.Handler) http.Handler { return f.engine.Loops().Refuse(all(next)) }
	mux.Handle("/mcp", front(f.stream))
	mux.Handle("/mcp/", closed.Wrap(f.router))
	mux.Handle("/mcps/", closed.Wrap(f.router))
	mux.Handle("/sse", front(f.sse))
	mux.Handle("/messages", front(f.sse))
	f.mountAgents(mux, open, closed)
	f.mountPlane(mux, open, closed)
	hub := f.engine.Offices.Handler() // it asks for credentials itself
	mux.Handle("/socket.io/", open.Wrap(hub))
	mux.Handle("/smcp/", open.Wrap(hub))
	health := aliveOr(open.Wrap(http.HandlerFunc(f.serveAlive)), closed.Wrap(http.HandlerFunc(f.serveHealth)), func(r *http.Request) bool {
		if tokens {
			return r.Header.Get("Authorization") == ""
		}
		return f.engine.Offices.Hides(r)
	})
	mux.Handle("/healthz", withInstance(f.engine.Instance, health))
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
func (f *Server) serveAlive(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	status, code := app.StatusOK, http.StatusOK
	if f.draining.Load() {
		status, code = app.StatusStopping, http.StatusServiceUnavailable
	}
	app.WriteJSON(w, code, map[string]string{"status": status})
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

func (f *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	h := f.engine.Health()
	if f.engine.Config().Auth.Scoped(guard.Principal(r.Context())) {
		h.Hub, h.Config = nil, "" // who is in which office, and where files are, is not for it
	}
	for name := range h.Upstreams {
		if !f.engine.Config().Auth.Reaches(guard.Principal(r.Context()), name) {
			delete(h.Upstreams, name)
		}
	}
	code := http.StatusOK
	if f.draining.Load() {
		h.Status, code = app.StatusStopping, http.StatusServiceUnavailable
	}
	app.WriteJSON(w, code, h)
}

// serveStats tells what calls cost: everybody's where there is one principal,
// else the caller's own.
func (f *Server) serveStats(w http.ResponseWriter, r *http.Request, tokens bool) {
	if !getOrHead(w, r) {
		return
	}
	app.WriteJSON(w, http.StatusOK, f.engine.Stats(guard.Principal(r.Context()), tokens))
}

// Shutdown lets running calls finish until ctx ends and answers the rest with an error. All of the
// Server has ended when it returns. The listener closes first, so that clients do not come
// back; what still comes on connections that are open is answered with "shutting
// down", and then the connection closes.
func (f *Server) Shutdown(ctx context.Context) error {
	f.draining.Store(true)
	if f.listener != nil {
		f.listener.shut()
	} else {
		close(f.ended) // requests of others' listeners have nothing to wait for
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
	for _, end := range []func(context.Context) error{f.stream.Shutdown, f.sse.Shutdown, f.router.Shutdown} {
		all.Go(func() { try(end) })
	}
	all.Wait()
	try(f.engine.Offices.Shutdown) // what is in flight may be at a Computer
	if failed != nil {
		f.log.Warn("some requests did not end", "err", failed)
	}
	if f.listener == nil {
		return nil
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

// mountAgents adds the paths of agents and of their callers.
func (f *Server) mountAgents(mux *http.ServeMux, open, closed *guard.Guard) {
	status := router.NewStatus(router.StatusOptions{
		Agents: f.engine.AgentStatus, Name: app.ServerName, Version: f.engine.Version, Started: f.engine.Started, Logger: f.log,
	})
	mux.Handle("/status", open.Wrap(http.HandlerFunc(status.Page)))
	mux.Handle("/status/data", closed.Wrap(http.HandlerFunc(status.Data)))
	mux.Handle(router.BrowserClientPath, open.Wrap(router.BrowserClient()))
	mux.Handle(router.TaskStatusPath, closed.Wrap(f.router))
	mux.Handle(registry.Path, closed.Wrap(f.engine.Registry()))
	mux.Handle(registry.Path+"/", closed.Wrap(f.engine.Registry()))
}

// unscoped keeps tokens that are for some agents from what reaches all of them.
func (f *Server) unscoped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if principal := guard.Principal(r.Context()); f.engine.Config().Auth.Scoped(principal) {
			guard.WriteError(w, http.StatusForbidden, "", mcp.Errorf(mcp.KindPermissionDenied,
				"the token of %q is for single agents (auth.tokens[].agents), at /mcps/NAME/mcp; %s reaches all of them", principal, r.URL.Path))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveCatalog answers /catalog.
func (f *Server) serveCatalog(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	app.WriteJSON(w, http.StatusOK, f.engine.CatalogInfo())
}

// InstanceHeader is the header of /healthz that says which run of a gateway answers. It is no secret:
// strangers are told, too.
const InstanceHeader = "Weir-Instance"

// withInstance adds the header to the answers of next.
func withInstance(instance string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(InstanceHeader, instance)
		next.ServeHTTP(w, r)
	})
}
