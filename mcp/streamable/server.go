package streamable

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/limit/inflight"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// ServerOptions configures a Server. Zero durations and bounds mean the defaults given below.
type ServerOptions struct {
	// Handler serves all messages. It must not be nil.
	Handler mcp.Handler
	// Name is how messages call this server, such as `the agent "files"`. The default is weir.
	Name string
	// Sessionless serves a legacy request without a session in a session that lasts as long as the
	// request. Otherwise the request is refused with 400, as the specification requires.
	Sessionless bool

	// SessionIdle is how long a session lives without a request or an open stream: 30 minutes.
	SessionIdle time.Duration
	// ResumeWindow is how long a legacy call keeps running, and its events are kept, after its
	// connection was lost: 60 seconds.
	ResumeWindow time.Duration
	// KeepAlive is the silence after which a comment is sent on a stream: 15 seconds.
	KeepAlive time.Duration
	// UpgradeAfter is how long a response may take before it becomes a stream, if the client
	// accepts one: 1 second.
	UpgradeAfter time.Duration
	// WriteTimeout bounds the time in which a client must read one write. After it the connection
	// counts as lost. The default is 30 seconds.
	WriteTimeout time.Duration

	// Sessions makes legacy sessions outlast this Server; nil ends them with it. Its methods are
	// called concurrently.
	Sessions interface {
		// Name returns the id that the client gets for a session whose handshake is over. It is valid
		// as [ValidSessionID] says, and belongs to no other session.
		Name(s *mcp.Session) string
		// Adopt returns the session that Name has given an id to, if it belongs to the principal and
		// End was not called. It returns nil if there is none. It is called for ids that this Server
		// does not have: after a restart, or once the session was ended for its idleness.
		Adopt(ctx context.Context, id, principal string) (*mcp.Session, error)
		// Restore is called for an adopted session that goes on here. All requests that name it wait
		// until Restore returns. ctx ends with the session, and not with the first request.
		Restore(ctx context.Context, s *mcp.Session)
		// End is called when the client ends its session. The client learns of an error, and tries
		// again.
		End(ctx context.Context, id string) error
		// Serves is called once, by NewServer, with the legacy sessions of the Server.
		Serves(of interface {
			// Here reports whether a session lives in the Server.
			Here(id string) bool
			// Forget ends a session there, so that it can go on elsewhere; one with requests in flight only
			// if all is set. The id "" stands for every session.
			Forget(id string, all bool)
			// Unsent returns the notifications of a session that wait for a GET stream of the client: the
			// newest of at most max bytes, in their order. It returns nil for a session that is not there.
			Unsent(id string, max int) (s *mcp.Session, notes []json.RawMessage)
			// IDs returns the ids of all sessions, and Count their number.
			IDs() []string
			Count() int
		})
		// Ending is called by Shutdown after the last call, before it ends the sessions.
		Ending(ctx context.Context)
	}

	// MaxBody bounds a request body: 10 MB.
	MaxBody int64
	// Memory counts the bytes of request bodies; nil sets no bound.
	Memory *memory.Pool
	// MaxSessions bounds the sessions: 10,000. At the bound, a new session replaces one that has been
	// idle for long, of the principal that has most sessions.
	MaxSessions int
	// OnSession is called with 1 when a legacy session starts, and with -1 when it ends. replaced is the
	// principal of a session that ends because a new one needs its place, "" otherwise. It must not
	// block. Nil is not called.
	OnSession func(change int, replaced string)
	// MaxPrincipalCalls bounds the requests of one principal in flight: 1,024.
	MaxPrincipalCalls int

	// MaxEvents (1,024) and MaxEventBytes (4 MB) bound the sent and unsent events of one stream. At
	// a bound, the oldest sent events are forgotten first, then progress is coalesced, then the
	// oldest notifications are dropped; requests and responses always fit.
	MaxEvents, MaxEventBytes int
	// MaxSessionBytes (16 MB) and MaxTotalBytes (64 MB) bound the events kept for resumption, per
	// session and in total.
	MaxSessionBytes, MaxTotalBytes int64

	// ErrorStatus chooses the HTTP status of a response that contains only an error of the Handler,
	// and may add headers. If it is nil or returns zero, the status follows the specification: 200,
	// except for a few errors of the modern era.
	ErrorStatus func(err error, h http.Header) int
	// Logger gets failures; nil discards them.
	Logger *slog.Logger
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Server is the http.Handler of one MCP endpoint, for all protocol versions. guard.Principal names
// the client, so wrap the Server in a guard.Guard. Call Shutdown to end it. It is safe for
// concurrent use.
//
// Locks are taken in the order Server.mu, serverSession.mu, exchange.mu, serverStream.mu,
// and no code of a Handler runs under any of them.
type Server struct {
	o    ServerOptions
	log  *slog.Logger
	held budget // bytes of events of all streams

	buffers  sync.Pool      // of *[]byte, for bodies and responses
	requests inflight.Group // HTTP requests being served; closed by Shutdown
	posts    inflight.Group // POSTs among them
	ended    atomic.Uint64  // sessions that clients ended

	mu         sync.Mutex // guards below
	sessions   map[string]*serverSession
	principals map[string]*principalState
	legacy     int // sessions of the legacy era among sessions
}

// principalState counts the sessions and calls of one principal. Its calls are counted without a
// lock.
type principalState struct {
	name     string
	sessions int            // guarded by Server.mu
	modern   *serverSession // guarded by Server.mu
	calls    atomic.Int64
}

// NewServer returns a Server. It starts nothing before the first request.
func NewServer(o ServerOptions) *Server {
	orDefault(&o.SessionIdle, 30*time.Minute)
	orDefault(&o.ResumeWindow, time.Minute)
	orDefault(&o.KeepAlive, 15*time.Second)
	orDefault(&o.UpgradeAfter, time.Second)
	orDefault(&o.WriteTimeout, 30*time.Second)
	orDefault(&o.MaxBody, 10<<20)
	orDefault(&o.MaxSessions, 10_000)
	orDefault(&o.MaxPrincipalCalls, 1_024)
	orDefault(&o.MaxEvents, 1_024)
	orDefault(&o.MaxEventBytes, 4<<20)
	orDefault(&o.MaxSessionBytes, 16<<20)
	orDefault(&o.MaxTotalBytes, 64<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name = "weir"
	}
	if o.OnSession == nil {
		o.OnSession = func(int, string) {}
	}
	s := &Server{o: o, log: o.Logger, sessions: map[string]*serverSession{}, principals: map[string]*principalState{}}
	s.held.max = o.MaxTotalBytes
	if o.Sessions != nil {
		o.Sessions.Serves(living{s})
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.posts.Enter() // before requests, so that Shutdown waits for each POST that is admitted
		defer s.posts.Leave()
	}
	closing := !s.requests.Enter()
	defer s.requests.Leave()
	switch r.Method {
	case http.MethodPost:
		s.servePost(w, r, closing)
	case http.MethodGet:
		s.serveGet(w, r, closing)
	case http.MethodDelete:
		s.serveDelete(w, r)
	default:
		if r.Header.Get(HeaderSession) == "" && mcp.IsModern(r.Header.Get(HeaderVersion)) {
			notAllowed(w, "POST", r.Method)
			return
		}
		notAllowed(w, "GET, POST, DELETE", r.Method)
	}
}

// notAllowed answers 405, which must list the allowed methods (RFC 9110 §15.5.6).
func notAllowed(w http.ResponseWriter, allow, method string) {
	w.Header().Set("Allow", allow)
	guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: %s", method, allow))
}

// refuse answers a request that failed within the transport.
func refuse(w http.ResponseWriter, id jsonrpc.ID, err error) {
	if wait := mcp.RetryAfter(err); wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	k, _ := mcp.KindOf(err)
	guard.WriteError(w, k.Info().HTTP, id, err)
}

func (s *Server) errShuttingDown() error {
	return mcp.Errorf(mcp.KindShuttingDown, "%s is shutting down; try again when it is back", s.o.Name)
}

// shutdownGrace is how long handlers may take to return after Shutdown stops waiting for their
// answers.
const shutdownGrace = 250 * time.Millisecond

// Shutdown ends the Server. It refuses new requests at once. Requests in flight run until they
// finish or ctx ends; then their contexts end and they are answered with an error of
// mcp.KindShuttingDown. Subscriptions, which never end by themselves, end first. Streams are closed
// and sessions end. When Shutdown returns nil, every goroutine of the Server has ended. It returns
// an error if handlers continue although their context has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.requests.Close()
	reason := s.errShuttingDown()
	for _, c := range s.callsInFlight() {
		if c.req.Method == "subscriptions/listen" {
			c.cancel(reason)
		}
	}
	if s.posts.Drain(ctx.Done()) > 0 {
		var answers sync.WaitGroup
		for _, c := range s.callsInFlight() {
			answers.Go(func() {
				c.x.hurry()
				c.x.answer(c, nil, reason)
				c.cancel(reason)
			})
		}
		answers.Wait()
	}
	if s.o.Sessions != nil {
		s.o.Sessions.Ending(ctx)
	}
	for _, sess := range s.allSessions() {
		sess.close(reason)
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if left := s.requests.Drain(grace.Done()); left > 0 {
		return mcp.Errorf(mcp.KindShuttingDown, "%d requests are still being handled although they were cancelled", left)
	}
	return nil
}

func (s *Server) allSessions() []*serverSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*serverSession, 0, len(s.sessions))
	for _, sess := range s.sessions {
		all = append(all, sess)
	}
	return all
}

func (s *Server) callsInFlight() []*serverCall {
	var all []*serverCall
	for _, sess := range s.allSessions() {
		all = append(all, sess.inFlight()...)
	}
	return all
}

type headerKey struct{}

// Header returns the HTTP headers of the request that a Handler serves, nil if the request came by
// another transport. They must not be changed. The owner of a tool checks Mcp-Param-* with them
// (2026-07-28).
func Header(ctx context.Context) http.Header {
	h, _ := ctx.Value(headerKey{}).(http.Header)
	return h
}
