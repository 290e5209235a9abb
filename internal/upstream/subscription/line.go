package subscription

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Conn is one connection to the server.
type Conn interface {
	Hello() mcp.Hello
	// Call sends a request to the server. timeout 0 sets no limit.
	Call(ctx context.Context, timeout time.Duration, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error)
}

// LineOptions say which connections a Line is for.
type LineOptions struct {
	Shared    bool         // all sessions without a Line of their own
	Principal string       // the one principal of the Line; "" if there are others
	Session   *mcp.Session // the one session of the Line; nil if there are others
	Modern    bool         // the second connection to a server of both eras
	// Current returns the present connection, nil if there is none.
	Current func() Conn
}

// Line has the subscriptions over one connection at a time. All methods are safe for concurrent
// use.
type Line struct {
	r       *Registry
	shared  bool
	several bool // several sessions may use the Line
	session *mcp.Session
	modern  bool
	current func() Conn
	owners  owners
	resub   chan struct{} // capacity 1: the resources have changed

	delivering sync.Mutex // held while subscribers are called: they get one notification at a time
	telling    sync.Mutex // held while the server gets subscriptions and levels

	mu    sync.Mutex // guards below
	uris  map[string]int
	sent  map[string]Conn // where each was subscribed to last
	holds int             // number of subscriptions
	level string          // last sent to the present connection
}

// NewLine returns a Line of a Registry.
func (r *Registry) NewLine(o LineOptions) *Line {
	return &Line{
		r: r, shared: o.Shared, several: o.Shared || o.Principal != "" && o.Session == nil && !o.Modern, session: o.Session, modern: o.Modern,
		current: o.Current, resub: make(chan struct{}, 1), uris: map[string]int{}, sent: map[string]Conn{},
	}
}

// Held reports whether a subscription needs the connection to stay.
func (l *Line) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds > 0
}

// Reset forgets the state of the previous connection. Call it with each new connection, before
// Renew.
func (l *Line) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level = ""
}

// Notice hands a notification that belongs to no call to the subscribers that it concerns.
func (l *Line) Notice(method string, params json.RawMessage) {
	r := l.r
	switch {
	case strings.HasSuffix(method, suffixListChanged):
		r.server.ListChanged(l)
	case method == methodAcknowledged:
		return // of weir's own subscription
	}
	if rawjson.GetPath(params, "_meta", mcp.MetaSubscriptionID) != nil {
		params = withoutSubscription(params)
	}
	uri := ""
	if method == methodUpdated {
		if uri = rawjson.Text(rawjson.Get(params, "uri")); uri == "" {
			return
		}
	}
	l.delivering.Lock()
	defer l.delivering.Unlock()
	heard := false
	for _, sub := range r.hearers(l) {
		if uri == "" && sub.uri == "" && l.concerns(sub.session, method, params) || uri != "" && sub.uri != "" && within(uri, sub.uri) {
			sub.fn(method, params)
			heard = true
		}
	}
	switch {
	case heard:
	case method == methodMessage:
		r.server.OperatorLog(params)
	case method != methodUpdated && !isListChanged(method):
		r.log.Debug("a notification of the server is for none of its agents", "method", method)
	}
}

// within reports whether an update of a resource concerns a subscription to it or to a resource
// above it.
func within(updated, subscribed string) bool {
	return updated == subscribed || strings.HasPrefix(updated, strings.TrimSuffix(subscribed, "/")+"/")
}

// withoutSubscription removes the id of weir's own subscription, which is meaningless to sessions.
func withoutSubscription(params json.RawMessage) json.RawMessage {
	meta, err := rawjson.Delete(rawjson.Get(params, "_meta"), mcp.MetaSubscriptionID)
	if err != nil {
		return params
	}
	out, err := rawjson.Set(params, "_meta", meta)
	if rawjson.IsEmptyObject(meta) {
		out, err = rawjson.Delete(params, "_meta")
	}
	if err != nil {
		return params
	}
	return out
}

// watch counts a subscription. For the first one to the resource it subscribes at the server.
func (l *Line) watch(ctx context.Context, conn Conn, uri string) error {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.mu.Lock()
	n := l.uris[uri]
	l.uris[uri]++
	l.holds++
	l.mu.Unlock()
	if n > 0 {
		return nil
	}
	if conn.Hello().Modern {
		l.relisten()
		return nil
	}
	_, err := conn.Call(ctx, tellTimeout, "resources/subscribe", uriParams(uri), nil)
	if err != nil {
		l.discount(uri)
		return err
	}
	l.subscribed(uri, conn)
	return nil
}

// subscribed notes that a resource was subscribed to over a connection, so that Renew does not repeat a
// subscription that had waited for the connection.
func (l *Line) subscribed(uri string, conn Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uris[uri] > 0 {
		l.sent[uri] = conn
	}
}

func (l *Line) discount(uri string) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds--
	l.uris[uri]--
	if l.uris[uri] <= 0 {
		delete(l.uris, uri)
		delete(l.sent, uri)
		last = true
	}
	return last
}

// unwatch removes a subscription. After the last one to the resource it unsubscribes at the server.
func (l *Line) unwatch(ctx context.Context, uri string) {
	l.telling.Lock()
	defer l.telling.Unlock()
	last, conn := l.discount(uri), l.current()
	switch {
	case !last || conn == nil:
	case conn.Hello().Modern:
		l.relisten()
	default:
		if _, err := conn.Call(ctx, tellTimeout, "resources/unsubscribe", uriParams(uri), nil); err != nil {
			l.r.log.Debug("a subscription could not be taken back", "err", err)
		}
	}
}

// Renew repeats the subscriptions and the log level of the previous connection on a new one.
func (l *Line) Renew(ctx context.Context, conn Conn) {
	l.telling.Lock()
	defer l.telling.Unlock()
	if conn.Hello().Modern {
		return // Listen and the calls themselves send them
	}
	for _, uri := range l.resources() {
		l.mu.Lock()
		done := l.sent[uri] == conn
		l.mu.Unlock()
		if done {
			continue
		}
		_, err := conn.Call(ctx, tellTimeout, "resources/subscribe", uriParams(uri), nil)
		if err != nil && ctx.Err() == nil {
			l.r.log.Warn("a subscription could not be renewed", "err", err)
		}
		if err != nil && !mcp.IsAnswer(err) {
			return
		}
		if err == nil {
			l.subscribed(uri, conn)
		}
	}
	if err := l.sendLevel(ctx, conn); err != nil && ctx.Err() == nil {
		l.r.log.Debug("the log level could not be renewed", "err", err)
	}
}

// resources returns the URIs that are subscribed to, sorted.
func (l *Line) resources() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.uris))
}

// tellLevel sends the wanted log level over the present connection, if there is one.
func (l *Line) tellLevel(ctx context.Context) error {
	l.telling.Lock()
	defer l.telling.Unlock()
	conn := l.current()
	if conn == nil || conn.Hello().Modern {
		return nil
	}
	return l.sendLevel(ctx, conn)
}

// sendLevel requests the most verbose level wanted. Callers hold telling.
func (l *Line) sendLevel(ctx context.Context, conn Conn) error {
	if rawjson.Get(conn.Hello().Capabilities, "logging") == nil {
		return nil
	}
	level := l.r.mostVerbose(l.session)
	l.mu.Lock()
	same := l.level == level
	l.mu.Unlock()
	if level == "" || same {
		return nil
	}
	params := rawjson.NewWriter(nil).Object().Key("level").String(level).EndObject().Bytes()
	if _, err := conn.Call(ctx, tellTimeout, "logging/setLevel", params, nil); err != nil {
		return err
	}
	l.mu.Lock()
	l.level = level
	l.mu.Unlock()
	return nil
}
