package passthrough

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Options configures a Router. Find and Names must be set; zero durations and bounds mean the
// defaults given below.
type Options struct {
	// Find returns the upstream with a name. It is called for each request, concurrently, and must
	// be fast. If it returns another upstream than before, the agents' sessions with the old one
	// end.
	Find func(name string) (Upstream, bool)
	// Absent returns the reason why a configured upstream is unavailable, nil for a name that is
	// not configured. It may be nil.
	Absent func(name string) error
	// Names lists the upstreams, for the error for an unknown name.
	Names func() []string
	// Guard checks Host, Origin and bearer token of each request. If it is nil, the caller must
	// wrap the Router in a guard: without one, web pages of other sites can call every upstream
	// (DNS rebinding).
	Guard *guard.Guard
	// Allow reports whether a principal may reach an upstream; nil allows all. It is called for
	// each request, concurrently, and must be fast.
	Allow func(principal, name string) bool
	// Judge decides about single calls; nil allows all.
	Judge Judge
	// Limits returns the bounds of an upstream; nil sets none. It is called for each request,
	// concurrently, and must be fast.
	Limits func(name string) Limits
	// Audit records requests before they reach an upstream; nil disables that.
	Audit Auditor
	// Observer observes requests; nil disables that.
	Observer Observer
	// Trace follows requests of agents, and those that are handed on as bytes; nil follows none. The
	// Peer of an upstream follows its own requests.
	Trace *trace.Tracer
	// Sign makes tokens for forwarded requests; nil signs nothing. The Peer of an upstream signs
	// its own requests; see Signed.
	Sign Sign
	// Loops marks requests to upstreams. If it is nil, the Router makes one, which does not know
	// connections outside the Router.
	Loops *Loops
	// Sessions makes the sessions of agents at a path outlast the Router; nil, or a nil Endpoint, ends
	// them with it.
	Sessions func(path string) *sessionid.Endpoint
	// Nodes makes the states of asked agents known to the other nodes of a cluster; nil is for a gateway of one
	// node.
	Nodes *bridge.Nodes
	// Locate returns a handler that serves a session at the node of a cluster that owns it, and calls next
	// for the sessions of this node. Nil is for a gateway of one node.
	Locate func(path string, sessions *sessionid.Keeper, next http.Handler) http.Handler
	// Elsewhere serves a request at the node of a cluster that an INC names. If it returns an error, it has
	// written nothing: ErrHere says that this process is that node, ErrNodeGone that there is none any more.
	// Nil is for a gateway of one node. With it, messages to programs are read one by one, so that the
	// node of each session, task and state is known.
	Elsewhere func(inc string, id jsonrpc.ID, w http.ResponseWriter, r *http.Request) error
	// Principals says that all sessions stand for their principals: the agents are other nodes of a cluster.
	Principals bool
	// SessionIdle is how long a session of the Router lives without a request or an open stream: 30
	// minutes.
	SessionIdle time.Duration
	// KeepAlive is the silence after which a comment is sent on a stream: 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout bounds the time in which an agent must read one write. After it the connection
	// counts as lost. The default is 30 seconds.
	WriteTimeout time.Duration
	// MaxBody bounds a request body: 10 MB.
	MaxBody int64
	// Docs keeps the owners of tasks over a restart; nil keeps none.
	Docs store.Docs
	// Memory counts the bytes of request bodies; nil sets no bound.
	Memory *memory.Pool
	// MaxResponse bounds one JSON response of an upstream: 256 MB. The response is copied without
	// being stored.
	MaxResponse int64
	// MaxSessions bounds the sessions that agents have with HTTP upstreams: 10,000. At the bound the one
	// that was unused for longest is forgotten, of the principal that has most: its agent has to start another.
	MaxSessions int
	// OnSession is called as streamable.ServerOptions.OnSession is, and with 0 for sessions that
	// live only at upstreams.
	OnSession func(change int, replaced string)
	// Transport carries forwarded requests. If it is nil, the Router makes one with its own
	// connection pool.
	Transport http.RoundTripper
	// Registered returns the transport for an upstream that has registered itself, nil for one that
	// an operator has named; see registered.go for further rules about such upstreams. It is called
	// for each request, concurrently, and must be fast. Nil says that there are none.
	Registered func(name string) http.RoundTripper
	// AgentHeaders returns further request headers for upstreams that have registered themselves.
	// It is called concurrently; nil names none.
	AgentHeaders func() []string
	// Logger gets failures; nil discards them.
	Logger *slog.Logger
}

// Errors of Options.Elsewhere.
var (
	ErrHere     = errors.New("this process is the node")
	ErrNodeGone = errors.New("the node is gone")
)

// sessions returns the Endpoint of an upstream, nil if its sessions end with the Router.
func (o *Options) sessions(name string) *sessionid.Endpoint {
	if o.Sessions == nil {
		return nil
	}
	return o.Sessions(endpointPath(name))
}

// endpointPath is the path of an upstream's endpoint.
func endpointPath(name string) string { return "/mcps/" + name + "/mcp" }

// peer returns the result of Registered for an upstream.
func (o *Options) peer(name string) http.RoundTripper {
	if o.Registered == nil {
		return nil
	}
	return o.Registered(name)
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Router is the http.Handler of /mcps/{name}/mcp and /mcp/{name}/mcp. Call
// Shutdown to end it. It is safe for concurrent use.
type Router struct {
	o       Options
	log     *slog.Logger
	forward *forwarder
	guarded http.Handler

	mu      sync.Mutex // guards below
	faces   map[string]*face
	closing bool
	leaving sync.WaitGroup // Shutdowns of faces whose upstream is gone; Add under mu

	// hurry ends when Shutdown stops waiting for leaving.
	hurry  context.Context
	cutOff context.CancelFunc
}

// New returns a Router. It starts nothing before the first request.
func New(o Options) *Router {
	orDefault(&o.SessionIdle, 30*time.Minute)
	orDefault(&o.KeepAlive, 15*time.Second)
	orDefault(&o.WriteTimeout, 30*time.Second)
	orDefault(&o.MaxBody, 10<<20)
	orDefault(&o.MaxResponse, 256<<20)
	orDefault(&o.MaxSessions, 10_000)
	if o.OnSession == nil {
		o.OnSession = func(int, string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.AgentHeaders == nil {
		o.AgentHeaders = func() []string { return nil }
	}
	if o.Loops == nil {
		o.Loops = NewLoops()
	}
	rt := &Router{o: o, log: o.Logger, faces: map[string]*face{}}
	rt.hurry, rt.cutOff = context.WithCancel(context.Background())
	rt.forward = newForwarder(&rt.o)
	rt.guarded = http.HandlerFunc(rt.route)
	if o.Guard != nil {
		rt.guarded = o.Guard.Wrap(rt.guarded)
	}
	return rt
}

// ServeHTTP implements http.Handler.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.guarded.ServeHTTP(w, r) }

// route finds the upstream that a path names.
func (rt *Router) route(w http.ResponseWriter, r *http.Request) {
	name, what, ok := nameOf(r.URL)
	if !ok && r.URL.Path == TaskStatusPath {
		rt.refuse(w, r, mcp.Errorf(mcp.KindInvalidParams, "whose task? %s needs agent=… beside taskId=…, or ask for /mcps/{name}/task?taskId=…", TaskStatusPath))
		return
	}
	if !ok {
		rt.refuse(w, r, mcp.Errorf(mcp.KindNotFound, "no such page: an agent's MCP endpoint is /mcps/{name}/mcp, its tasks are at /mcps/{name}/task?taskId=…"))
		return
	}
	principal := guard.Principal(r.Context())
	if !rt.allowed(principal, name) {
		rt.refuse(w, r, mcp.Errorf(mcp.KindPermissionDenied, "the token of %q is not for agent '%s': auth.tokens[].agents says which it is for", principal, clip(name)))
		return
	}
	up, ok := rt.o.Find(name)
	if !ok {
		rt.forget(name)
		if rt.o.Absent != nil {
			if err := rt.o.Absent(name); err != nil {
				rt.refuse(w, r, err)
				return
			}
		}
		rt.refuseUnknown(w, r, rt.unknown(principal, name))
		return
	}
	if rt.o.Loops.seen(r.Header, name) {
		rt.o.Loops.tell(w.Header())
		rt.refuse(w, r, errLoop(fmt.Sprintf("upstream %q", clip(name))))
		return
	}
	f := rt.face(name, up)
	if f == nil {
		rt.refuse(w, r, errShuttingDown())
		return
	}
	if what == taskPath {
		f.serveTask(w, r)
		return
	}
	if f.located != nil {
		f.located.ServeHTTP(w, r)
		return
	}
	f.serve(w, r)
}

// allowed reports whether a principal may reach an upstream.
func (rt *Router) allowed(principal, name string) bool {
	return rt.o.Allow == nil || rt.o.Allow(principal, name)
}

// limits returns the bounds of an upstream.
func (rt *Router) limits(name string) Limits {
	if rt.o.Limits == nil {
		return Limits{}
	}
	return rt.o.Limits(name)
}

// face returns the face of an upstream, nil during Shutdown.
func (rt *Router) face(name string, up Upstream) *face {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	f := rt.faces[name]
	if f != nil && f.up == up {
		return f
	}
	if rt.closing {
		return nil
	}
	if f != nil {
		rt.leave(f)
	}
	f = newFace(rt, name, up)
	rt.faces[name] = f
	return f
}

// forget removes a face whose upstream is gone.
func (rt *Router) forget(name string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if f := rt.faces[name]; f != nil && !rt.closing {
		delete(rt.faces, name)
		rt.leave(f)
	}
}

// leaveTimeout bounds how long the requests of an upstream that is gone may take. The upstream
// itself usually ends its calls long before.
const leaveTimeout = 5 * time.Minute

// leave ends the sessions of a face in the background. The caller holds mu.
func (rt *Router) leave(f *face) {
	rt.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(rt.hurry, leaveTimeout)
		defer cancel()
		f.close()
		if err := f.server.Shutdown(ctx); err != nil {
			rt.log.Warn("an upstream's sessions did not end", "upstream", f.name, "err", err)
		}
	})
}

// Shutdown ends the Router. It refuses new requests at once, and closes streams and subscriptions,
// which never end by themselves. Other requests run until they finish or ctx ends; then they are
// answered with an error of mcp.KindShuttingDown. When Shutdown returns nil, every goroutine of the
// Router has ended.
func (rt *Router) Shutdown(ctx context.Context) error {
	rt.mu.Lock()
	rt.closing = true
	faces := make([]*face, 0, len(rt.faces))
	for _, f := range rt.faces {
		faces = append(faces, f)
	}
	rt.mu.Unlock()
	errs := make(chan error, len(faces)+1)
	var all sync.WaitGroup
	all.Go(func() { errs <- rt.forward.shutdown(ctx) })
	for _, f := range faces {
		all.Go(func() {
			f.close()
			errs <- f.server.Shutdown(ctx)
		})
	}
	all.Wait()
	stop := context.AfterFunc(ctx, rt.cutOff)
	rt.leaving.Wait()
	stop()
	rt.cutOff()
	for range cap(errs) {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}
