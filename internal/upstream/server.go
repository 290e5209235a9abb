package upstream

import (
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/mcp"
)

// server is one MCP server as it is configured, and the means to reach it: programs, URLs and
// greetings. It makes connections; slots keep them. All methods are safe for concurrent use.
type server struct {
	name string
	who  string // for messages
	cfg  *mcpserver.Server
	opts Options
	open Open // nil: cfg says how to connect
	log  *slog.Logger

	endpoint   *url.URL     // of the configuration, or nil
	header     http.Header  // of the configuration, canonical
	traced     trace.Server // the server in spans
	noModern   atomic.Bool  // this HTTP server does not speak the modern era
	viaSSE     atomic.Bool  // the URL turned out to belong to an HTTP+SSE server
	tasks      atomic.Bool  // the server declares tasks, of either era
	asksSignIn atomic.Bool  // the server refused a connection without a sign-in
	asksRoots  atomic.Bool  // the server has requested roots on a shared connection
	leftOut    atomic.Bool  // the server is weir itself
	junkLogged atomic.Int64 // lines; see junk

	programs programs

	mu    sync.Mutex // guards below
	hello mcp.Hello  // of the shared connection, kept while it is down
	// modernOnly says that the shared connection last worked in the modern era. The next handshake
	// starts with that era.
	modernOnly bool
}

func (srv *server) init(opts Options, cfg *mcpserver.Server, open Open) {
	srv.name, srv.who, srv.cfg, srv.opts, srv.open = cfg.Name, `upstream "`+cfg.Name+`"`, cfg, opts, open
	srv.log = opts.Logger.With("upstream", cfg.Name)
	srv.traced = trace.ServerAt(cfg.Name, nil)
	if cfg.URL == "" {
		return
	}
	srv.header = headerOf(cfg)
	if target, err := url.Parse(cfg.URL); err == nil {
		target.Fragment = ""
		srv.endpoint = target
		srv.traced = trace.ServerAt(cfg.Name, target)
	}
}

// Name returns the configured name.
func (srv *server) Name() string { return srv.name }

// Config returns the configuration, which must not be changed.
func (srv *server) Config() *mcpserver.Server { return srv.cfg }

// CallTimeout returns the time that a call may take; 0 sets no limit.
func (srv *server) CallTimeout() time.Duration { return srv.cfg.Timeout }

// OffersTasks reports whether the server declared, when it was last greeted, that it may answer calls
// with tasks.
func (srv *server) OffersTasks() bool { return srv.tasks.Load() }

// TasksOutliveSessions reports whether a task may go on when the session that made it has ended. It
// does not where each session has a program of its own.
func (srv *server) TasksOutliveSessions() bool {
	return !srv.cfg.PerSession || transportOf(srv.cfg) != mcpserver.TransportStdio
}

// transportOf returns the transport of a server, whether its type is set or not.
func transportOf(s *mcpserver.Server) mcpserver.Transport {
	switch {
	case s.Type != "":
		return s.Type
	case s.OpenAPI.Document != "":
		return mcpserver.TransportOpenAPI
	case s.URL != "":
		return mcpserver.TransportHTTP
	}
	return mcpserver.TransportStdio
}

func (srv *server) transport() mcpserver.Transport {
	if srv.viaSSE.Load() {
		return mcpserver.TransportSSE
	}
	return transportOf(srv.cfg)
}

// program reports whether weir starts the server.
func (srv *server) program() bool { return srv.cfg.Command != "" }

// http reports whether the server speaks streamable HTTP.
func (srv *server) http() bool { return srv.transport() == mcpserver.TransportHTTP }

// onDemand reports whether the shared connection exists only while it is needed.
func (srv *server) onDemand() bool {
	return srv.cfg.Start == mcpserver.StartLazy || srv.cfg.PerSession || srv.cfg.PerPrincipal() && srv.program()
}

// target is the endpoint of a streamable HTTP server, for callers that forward whole HTTP exchanges.
type target struct {
	URL *url.URL // of the endpoint; must not be changed
	// Header has the configured headers of each request. Its keys are canonical; it must not be
	// changed.
	Header  http.Header
	Timeout time.Duration // of one call; zero sets no bound
	// Process says that weir runs the server. Callers must hold it while they send requests to it:
	// see Hold and Ready.
	Process bool
	// Cluster says that all nodes of a cluster reach the same server. It is set if ok is false as
	// well.
	Cluster bool
	Version string // negotiated in the handshake, "" before it
}

// Target returns the endpoint of a streamable HTTP server. ok is false for other servers, for those
// with credentials, whose requests get a token on weir's own connection, and for those that a cluster
// has one connection to. It is cheap.
func (srv *server) Target() (t target, ok bool) {
	if srv.cfg.Scope == mcpserver.ScopeCluster {
		return target{Cluster: true}, false
	}
	if srv.endpoint == nil || !srv.http() || srv.cfg.PerPrincipal() || srv.asksSignIn.Load() || srv.signedIn(oauth.Shared) {
		return target{}, false
	}
	t = target{URL: srv.endpoint, Header: srv.header, Timeout: srv.cfg.Timeout, Process: srv.program()}
	t.Version = srv.lastHello().Version
	return t, true
}

// lastHello returns the server's part of the shared connection's handshake, even while the
// connection is down.
func (srv *server) lastHello() mcp.Hello {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.hello
}

// noteEra records what the handshake of a principal tells about the server itself, where strangers
// are not greeted.
func noteEra(srv *server, l *link) {
	srv.tasks.Store(declaresTasks(l))
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.hello.ServerInfo == nil {
		srv.hello, srv.modernOnly = mcp.Hello{Version: l.hello.Version, Modern: l.hello.Modern}, l.hello.Modern
	}
}

// declaresTasks reports whether a server may answer calls with tasks, of either era.
func declaresTasks(l *link) bool {
	return mcptask.Declares(l.hello.Capabilities) || rawjson.IsObject(rawjson.Get(l.hello.Capabilities, "tasks"))
}

// greeted records the handshake of a slot's new connection.
func (srv *server) greeted(s *slot, l *link) {
	if !s.isShared() {
		if s.key.principal != "" && !s.key.modern && srv.cfg.ListsPerCaller() {
			noteEra(srv, l)
		}
		return
	}
	srv.noModern.Store(false)
	srv.tasks.Store(declaresTasks(l))
	srv.mu.Lock()
	srv.hello, srv.modernOnly = l.hello, l.hello.Modern
	srv.mu.Unlock()
	srv.log.Info("connected", "version", l.hello.Version, "transport", srv.transport(), "pid", l.pid)
}

// ownFor reports whether a session gets a connection of its own. It does if the configuration says
// so, or if the server requests roots and the session's client has some (spec/calls §4: a server
// that asks for roots is per_session by itself). A server with scope: cluster is not: it has one program.
func (srv *server) ownFor(session *mcp.Session) bool {
	return srv.cfg.PerSession || srv.asksRoots.Load() && srv.cfg.Scope != mcpserver.ScopeCluster && declaresRoots(session)
}

func (srv *server) stopped() error {
	return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s was stopped: it is restarted, the configuration changed, or weir is shutting down", srv.who)
}

// foundRoots records that the server requested roots on a shared connection.
func (srv *server) foundRoots() {
	if !srv.asksRoots.Swap(true) && !srv.cfg.PerSession && srv.cfg.Scope != mcpserver.ScopeCluster {
		srv.log.Info("the server asks for roots: sessions whose clients have some get connections of their own from now on, as with per_session: true")
	}
}
