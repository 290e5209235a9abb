package subscription

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of one server's subscriptions.
const (
	maxSubscribers = 10_000 // functions
	tellTimeout    = 10 * time.Second
)

const (
	methodUpdated      = "notifications/resources/updated"
	methodMessage      = "notifications/message"
	suffixListChanged  = "/list_changed"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	methodListen       = "subscriptions/listen"
)

// Server is the server of a Registry. All methods may be called concurrently.
type Server interface {
	// Line returns the Line for the calls of a session. It does not make one.
	Line(session *mcp.Session) *Line
	// ListChanged is called when the server reports that a list has changed.
	ListChanged(from *Line)
	// OperatorLog logs a log message that belongs to no session.
	OperatorLog(params json.RawMessage)
	// Go runs f in a goroutine unless the server is closed; ctx ends when the server is closed.
	Go(f func(ctx context.Context))
	// Stopped returns an error if the server is closed.
	Stopped() error
}

// Registry holds the subscriptions and log levels of all sessions at one server. All methods are
// safe for concurrent use.
type Registry struct {
	server Server
	who    string // for messages
	log    *slog.Logger

	mu     sync.Mutex // guards below
	closed bool
	subs   map[*subscriber]struct{}
	levels map[*mcp.Session]*wantedLevel
}

// NewRegistry returns a Registry. who names the server in errors, such as `upstream "files"`.
func NewRegistry(server Server, who string, log *slog.Logger) *Registry {
	return &Registry{server: server, who: who, log: log, subs: map[*subscriber]struct{}{}, levels: map[*mcp.Session]*wantedLevel{}}
}

// subscriber is a function that gets notifications that belong to no call.
type subscriber struct {
	session *mcp.Session // the session of its Line; nil means the shared one
	uri     string       // of the resource whose updates it gets; "" means everything except updates
	line    *Line        // with the subscription at the server; set under mu
	fn      func(method string, params json.RawMessage)
}

// Close makes SetLogLevel fail from now on and forgets the levels of all sessions.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	levels := r.levels
	r.levels = map[*mcp.Session]*wantedLevel{}
	r.mu.Unlock()
	for _, l := range levels {
		l.stop()
	}
}

// Subscribe calls fn for each notification that belongs to no call and is not an update of a
// resource. A session gets the notifications of the Line for its calls; on a shared Line, the ones
// that concern its principal. For each Line, fn is called in order, for one notification at a time.
// It must not block, and must clone the params that it keeps. It may be called once more while stop
// runs. With too many subscriptions Subscribe logs that and never calls fn.
func (r *Registry) Subscribe(session *mcp.Session, fn func(method string, params json.RawMessage)) (stop func()) {
	stop, err := r.add(&subscriber{session: session, fn: fn})
	if err != nil {
		r.log.Warn("a session will not hear of changes", "err", err)
		return func() {}
	}
	return stop
}

func (r *Registry) add(sub *subscriber) (stop func(), err error) {
	r.server.Line(nil).owners.uses(sub.session)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.subs) >= maxSubscribers {
		return nil, mcp.Errorf(mcp.KindOverloaded, "%s has %d subscriptions, which is the bound; end some", r.who, maxSubscribers)
	}
	r.subs[sub] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subs, sub)
	}, nil
}

// A Resource is the subscription of one function to one resource.
type Resource struct {
	r      *Registry
	sub    *subscriber
	remove func()
	once   sync.Once
}

// Resource returns a subscription to a resource. Begin starts it. fn is as with Subscribe.
func (r *Registry) Resource(uri string, fn func(params json.RawMessage)) (*Resource, error) {
	if uri == "" {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "resources/subscribe needs a uri")
	}
	sub := &subscriber{uri: uri, fn: func(_ string, params json.RawMessage) { fn(params) }}
	remove, err := r.add(sub)
	return &Resource{r: r, sub: sub, remove: remove}, err
}

// Begin subscribes over a Line, whose present connection is conn. It subscribes at the server for
// the first subscription to a resource. After a lost connection it subscribes again.
func (s *Resource) Begin(ctx context.Context, line *Line, conn Conn) error {
	s.r.mu.Lock()
	s.sub.line = line
	s.r.mu.Unlock()
	return line.watch(ctx, conn, s.sub.uri)
}

// Abandon ends a subscription that did not start.
func (s *Resource) Abandon() { s.remove() }

// Stop ends the subscription. After the last one to the resource it unsubscribes at the server in
// the background. Further calls do nothing.
func (s *Resource) Stop() {
	s.once.Do(func() {
		s.remove()
		s.r.mu.Lock()
		line := s.sub.line
		s.r.mu.Unlock()
		s.r.server.Go(func(ctx context.Context) { line.unwatch(ctx, s.sub.uri) })
	})
}

// hearers returns the subscribers that a notification of a Line may be for.
func (r *Registry) hearers(l *Line) []*subscriber {
	r.mu.Lock()
	var out, own []*subscriber
	for sub := range r.subs {
		switch {
		case sub.uri != "":
			if sub.line == l {
				out = append(out, sub)
			}
		case l.several && sub.session != nil:
			own = append(own, sub)
		case l.shared, sub.session != nil && sub.session == l.session && !l.modern:
			out = append(out, sub)
		}
	}
	r.mu.Unlock()
	for _, sub := range own { // without the lock: Line has a lock of its own
		if r.server.Line(sub.session) == l {
			out = append(out, sub)
		}
	}
	return out
}

// wantedLevel is the log level of one session.
type wantedLevel struct {
	level string
	stop  func() // of the session's OnClose
}

// SetLogLevel sets the log level of a session, until the session ends; "" disables messages. The
// server gets the most verbose level of all sessions of the Line: the caller filters messages for
// its session. A server that is down or idle gets the level when it is back, a modern one with each
// call. It returns the error of the server.
func (r *Registry) SetLogLevel(ctx context.Context, session *mcp.Session, level string) error {
	if level != "" && mcp.LogSeverity(level) < 0 {
		return mcp.Errorf(mcp.KindInvalidParams, "%q is no log level", level)
	}
	r.mu.Lock()
	wanted := r.levels[session]
	switch {
	case r.closed:
		r.mu.Unlock()
		return r.server.Stopped()
	case level == "":
		delete(r.levels, session)
	case wanted != nil:
		wanted.level = level
	default:
		r.levels[session] = &wantedLevel{level: level, stop: func() {}}
	}
	r.mu.Unlock()
	switch {
	case level == "" && wanted != nil:
		wanted.stop()
	case level != "" && wanted == nil && session != nil:
		// Registered without the lock: OnClose of an ended session calls the function at once.
		stop := session.OnClose(func() { r.forgetLevel(session) })
		r.mu.Lock()
		w := r.levels[session]
		if w != nil {
			w.stop = stop
		}
		r.mu.Unlock()
		if w == nil {
			stop()
		}
	}
	return r.server.Line(session).tellLevel(ctx)
}

func (r *Registry) forgetLevel(session *mcp.Session) {
	r.mu.Lock()
	delete(r.levels, session)
	r.mu.Unlock()
	r.server.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		defer cancel()
		if err := r.server.Line(nil).tellLevel(ctx); err != nil && ctx.Err() == nil {
			r.log.Debug("the log level could not be set", "err", err)
		}
	})
}

// mostVerbose returns the wanted level of one session's Line, or of the shared Line.
func (r *Registry) mostVerbose(session *mcp.Session) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := ""
	for s, w := range r.levels {
		if session != nil && s != session {
			continue
		}
		if most == "" || mcp.LogSeverity(w.level) < mcp.LogSeverity(most) {
			most = w.level
		}
	}
	return most
}

func uriParams(uri string) json.RawMessage {
	return rawjson.NewWriter(nil).Object().Key("uri").String(uri).EndObject().Bytes()
}
