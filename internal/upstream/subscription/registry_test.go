package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// fakeServer is a Server with one shared Line, and Lines of single sessions.
type fakeServer struct {
	shared *Line
	own    map[*mcp.Session]*Line
	work   sync.WaitGroup

	mu      sync.Mutex // guards below
	stopped error
	lists   int
	logged  []string
}

func (s *fakeServer) Line(session *mcp.Session) *Line {
	if l := s.own[session]; l != nil {
		return l
	}
	return s.shared
}

func (s *fakeServer) ListChanged(*Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
}

func (s *fakeServer) OperatorLog(params json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged = append(s.logged, string(params))
}

func (s *fakeServer) Go(f func(ctx context.Context)) { s.work.Go(func() { f(context.Background()) }) }

func (s *fakeServer) Stopped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// fakeConn is a connection that notes what it is asked.
type fakeConn struct {
	hello mcp.Hello
	serve func(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) // nil answers {}

	mu    sync.Mutex // guards below
	asked []string   // "method uri or level"
}

func (c *fakeConn) Hello() mcp.Hello { return c.hello }

func (c *fakeConn) Call(ctx context.Context, _ time.Duration, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	c.mu.Lock()
	c.asked = append(c.asked, method+" "+rawjson.Text(rawjson.Get(params, "uri"))+rawjson.Text(rawjson.Get(params, "level")))
	c.mu.Unlock()
	if c.serve != nil {
		return c.serve(ctx, method, params, back)
	}
	return json.RawMessage(`{}`), nil
}

// taken returns what was asked since the last time.
func (c *fakeConn) taken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return strings.Join(asked, ", ")
}

// newServer returns a server whose shared Line has a connection.
func newServer(t *testing.T, conn *fakeConn) (*fakeServer, *Registry) {
	t.Helper()
	s := &fakeServer{own: map[*mcp.Session]*Line{}}
	r := NewRegistry(s, `upstream "files"`, slog.New(slog.DiscardHandler))
	s.shared = r.NewLine(LineOptions{Shared: true, Current: func() Conn {
		if conn == nil {
			return nil
		}
		return conn
	}})
	t.Cleanup(func() { r.Close(); s.work.Wait() })
	return s, r
}

// hearing subscribes a session and returns what it hears.
func hearing(t *testing.T, r *Registry, s *mcp.Session) *[]string {
	t.Helper()
	heard := new([]string)
	t.Cleanup(r.Subscribe(s, func(method string, params json.RawMessage) { *heard = append(*heard, method+" "+string(params)) }))
	return heard
}

func sessions(t *testing.T, principals ...string) (all []*mcp.Session) {
	for i, principal := range principals {
		s := mcp.NewSession(fmt.Sprint("s", i), principal)
		t.Cleanup(s.Close)
		all = append(all, s)
	}
	return all
}

// TestNoticesReachThoseWhomTheyConcern: on a shared connection, a session hears of its principal's tasks and
// elicitations and of lists, the operator of log messages, and nobody of what may be another principal's.
func TestNoticesReachThoseWhomTheyConcern(t *testing.T) {
	server, r := newServer(t, nil)
	line := server.shared
	s := sessions(t, "ann", "bob", "ann")
	ann, bob, again := hearing(t, r, s[0]), hearing(t, r, s[1]), hearing(t, r, s[2])
	own := func(s *mcp.Session, result string, err error) {
		t.Helper()
		_, call := line.Own(s, nil)
		call.End(json.RawMessage(result), err)
	}
	own(s[0], `{"task":{"taskId":"t1","status":"working"}}`, nil)
	own(s[1], `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"elicitationId":"e1"}}}}`, nil)
	own(s[1], "", &jsonrpc.Error{Code: codeElicitFirst, Data: json.RawMessage(`{"elicitations":[{"elicitationId":"e2"},{"elicitationId":7}]}`)})
	for _, tt := range []struct{ method, params, hears string }{
		{methodTaskStatus, `{"taskId":"t1"}`, "ann again"},
		{methodTaskStatus, `{"taskId":"unknown"}`, ""},
		{methodElicited, `{"elicitationId":"e1"}`, "bob"},
		{methodElicited, `{"elicitationId":"e2"}`, "bob"},
		{"notifications/tools/list_changed", `{}`, "ann bob again"},
		{"notifications/vendor/custom", `{}`, ""}, // two principals use the connection
		{methodMessage, `{"data":"hot"}`, ""},
		{methodAcknowledged, `{}`, ""},
		{methodUpdated, `{"uri":"file:///a"}`, ""}, // no session has subscribed to it
		{methodUpdated, `{}`, ""},
	} {
		*ann, *bob, *again = nil, nil, nil
		line.Notice(tt.method, json.RawMessage(tt.params))
		var hears []string
		for _, who := range []struct {
			name  string
			heard []string
		}{{"ann", *ann}, {"bob", *bob}, {"again", *again}} {
			if len(who.heard) > 0 {
				hears = append(hears, who.name)
			}
		}
		if got := strings.Join(hears, " "); got != tt.hears {
			t.Errorf("%s %s is heard by %q, want %q", tt.method, tt.params, got, tt.hears)
		}
	}
	if server.lists != 1 || !slices.Equal(server.logged, []string{`{"data":"hot"}`}) {
		t.Errorf("%d lists, logged %q", server.lists, server.logged)
	}
	// A subscriber without a session hears all of it, so the operator's log need not.
	all := hearing(t, r, nil)
	line.Notice(methodMessage, json.RawMessage(`{"data":"again"}`))
	if len(*all) != 1 || len(server.logged) != 1 {
		t.Errorf("heard %q, logged %q", *all, server.logged)
	}
}

// TestTheOnlyPrincipalHearsEverything: while one principal uses the connection, notifications that name no owner are
// for it.
func TestTheOnlyPrincipalHearsEverything(t *testing.T) {
	server, r := newServer(t, nil)
	s := sessions(t, "ann", "ann", "bob")
	heard := hearing(t, r, s[0])
	server.shared.Uses(s[1])
	server.shared.Notice("notifications/vendor/custom", json.RawMessage(`{"n":1}`))
	server.shared.Notice(methodTaskStatus, json.RawMessage(`{"taskId":"t"}`))
	if len(*heard) != 2 {
		t.Errorf("heard %q", *heard)
	}
	server.shared.Uses(s[2])
	server.shared.Notice("notifications/vendor/custom", json.RawMessage(`{"n":2}`))
	if len(*heard) != 2 {
		t.Errorf("of two principals one heard %q", *heard)
	}
}

// TestNoticesDuringACall: a server may send what is another principal's during any call. The caller does not get it.
func TestNoticesDuringACall(t *testing.T) {
	server, r := newServer(t, nil)
	s := sessions(t, "ann", "bob")
	ann := hearing(t, r, s[0])
	hearing(t, r, s[1])
	_, first := server.shared.Own(s[0], nil)
	first.End(json.RawMessage(`{"task":{"taskId":"t1","status":"working"}}`), nil)
	var got []string
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		got = append(got, r.Method+" "+string(r.Params))
		return json.RawMessage(`{}`), nil
	})
	owned, second := server.shared.Own(s[1], back)
	var err error
	for _, r := range []*mcp.Request{
		{Method: methodTaskStatus, Params: json.RawMessage(`{"taskId":"t1"}`)},
		{Method: "notifications/progress", Params: json.RawMessage(`{}`)},
		{ID: "1", Method: methodElicit, Params: json.RawMessage(`{"elicitationId":"e1"}`)},
		{Method: methodElicited, Params: json.RawMessage(`{"elicitationId":"e1"}`)},
	} {
		if _, err = owned.Serve(t.Context(), r); err != nil {
			break
		}
	}
	second.End(nil, err)
	want := []string{"notifications/progress {}", `elicitation/create {"elicitationId":"e1"}`, `notifications/elicitation/complete {"elicitationId":"e1"}`}
	if err != nil || !slices.Equal(got, want) || !slices.Equal(*ann, []string{`notifications/tasks/status {"taskId":"t1"}`}) {
		t.Errorf("%v, the caller got %q, the owner heard %q", err, got, *ann)
	}
}

// TestALineOfOneSession: its session hears all of it, and no other session does.
func TestALineOfOneSession(t *testing.T) {
	server, r := newServer(t, nil)
	s := sessions(t, "ann", "bob")
	line := r.NewLine(LineOptions{Session: s[0], Current: func() Conn { return nil }})
	server.own[s[0]] = line
	ann, bob := hearing(t, r, s[0]), hearing(t, r, s[1])
	line.Notice(methodMessage, json.RawMessage(`{"data":"hot"}`))
	line.Notice("notifications/vendor/custom", json.RawMessage(`{}`))
	server.shared.Notice("notifications/tools/list_changed", json.RawMessage(`{}`))
	if len(*ann) != 2 || len(*bob) != 1 {
		t.Errorf("ann %q, bob %q", *ann, *bob)
	}
}

// TestUpdates: the update of a resource reaches those who have subscribed to it or to one above it, without the id of
// the gateway's own subscription.
func TestUpdates(t *testing.T) {
	conn := &fakeConn{}
	server, r := newServer(t, conn)
	heard := map[string][]string{}
	for _, uri := range []string{"file:///a", "file:///a/b", "file:///a/"} {
		sub, err := r.Resource(uri, func(params json.RawMessage) { heard[uri] = append(heard[uri], string(params)) })
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.Begin(t.Context(), server.shared, conn); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sub.Stop)
	}
	server.shared.Notice(methodUpdated, json.RawMessage(`{"uri":"file:///a/b","_meta":{"`+mcp.MetaSubscriptionID+`":1}}`))
	server.shared.Notice(methodUpdated, json.RawMessage(`{"uri":"file:///a","_meta":{"`+mcp.MetaSubscriptionID+`":1,"k":2}}`))
	server.shared.Notice(methodUpdated, json.RawMessage(`{"uri":"file:///ab"}`))
	const below, itself = `{"uri":"file:///a/b"}`, `{"uri":"file:///a","_meta":{"k":2}}`
	want := map[string][]string{"file:///a": {below, itself}, "file:///a/b": {below}, "file:///a/": {below}}
	if fmt.Sprint(heard) != fmt.Sprint(want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

// TestSubscriptionsAreCounted: the server gets one subscription for each resource, and loses it after the last one.
func TestSubscriptionsAreCounted(t *testing.T) {
	conn := &fakeConn{}
	server, r := newServer(t, conn)
	begin := func(uri string) *Resource {
		t.Helper()
		sub, err := r.Resource(uri, func(json.RawMessage) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.Begin(t.Context(), server.shared, conn); err != nil {
			t.Fatal(err)
		}
		return sub
	}
	first, second, other := begin("z:1"), begin("z:1"), begin("z:2")
	if got := conn.taken(); got != "resources/subscribe z:1, resources/subscribe z:2" || !server.shared.Held() {
		t.Errorf("asked %s", got)
	}
	first.Stop()
	first.Stop()
	server.work.Wait()
	if got := conn.taken(); got != "" {
		t.Errorf("asked %s", got)
	}
	second.Stop()
	server.work.Wait()
	if got := conn.taken(); got != "resources/unsubscribe z:1" {
		t.Errorf("asked %s", got)
	}
	other.Stop()
	server.work.Wait()
	if conn.taken(); server.shared.Held() {
		t.Error("a connection without subscriptions is held")
	}

	// A server that refuses leaves no subscription behind.
	conn.serve = func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return nil, &jsonrpc.Error{Code: -32002, Message: "no such resource"}
	}
	sub, err := r.Resource("z:3", func(json.RawMessage) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Begin(t.Context(), server.shared, conn); err == nil || server.shared.Held() {
		t.Errorf("refused: %v, held %t", err, server.shared.Held())
	}
	sub.Abandon()
	if len(r.subs) != 0 {
		t.Errorf("%d subscribers are left", len(r.subs))
	}
	if _, err := r.Resource("", nil); err == nil {
		t.Error("a subscription without a URI")
	}
}

// TestRenew: a new connection gets the subscriptions and the level of the last one, and not twice what was sent over it
// already. A refusal is of one resource; a broken connection ends it.
func TestRenew(t *testing.T) {
	hello := mcp.Hello{Capabilities: json.RawMessage(`{"logging":{}}`)}
	conn := &fakeConn{hello: hello}
	server, r := newServer(t, conn)
	s := sessions(t, "ann")
	for _, uri := range []string{"z:2", "z:1"} {
		sub, err := r.Resource(uri, func(json.RawMessage) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.Begin(t.Context(), server.shared, conn); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sub.Stop)
	}
	if err := r.SetLogLevel(t.Context(), s[0], "info"); err != nil {
		t.Fatal(err)
	}
	conn.taken()
	server.shared.Renew(t.Context(), conn)
	if got := conn.taken(); got != "" {
		t.Errorf("the same connection was asked %s", got)
	}
	next := &fakeConn{hello: hello, serve: func(_ context.Context, _ string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		if rawjson.Text(rawjson.Get(params, "uri")) == "z:1" {
			return nil, &jsonrpc.Error{Code: -32002, Message: "gone"}
		}
		return nil, nil
	}}
	server.shared.Reset()
	server.shared.Renew(t.Context(), next)
	if got := next.taken(); got != "resources/subscribe z:1, resources/subscribe z:2, logging/setLevel info" {
		t.Errorf("the next one was asked %s", got)
	}
	broken := &fakeConn{hello: hello, serve: func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return nil, errors.New("broken pipe")
	}}
	server.shared.Renew(t.Context(), broken)
	if got := broken.taken(); got != "resources/subscribe z:1" {
		t.Errorf("a broken one was asked %s", got)
	}
}

// TestLogLevels: the server gets the most verbose level that a session wants, when it changes.
func TestLogLevels(t *testing.T) {
	conn := &fakeConn{hello: mcp.Hello{Capabilities: json.RawMessage(`{"logging":{}}`)}}
	server, r := newServer(t, conn)
	s := sessions(t, "ann", "bob")
	for _, tt := range []struct {
		session     *mcp.Session
		level, asks string
	}{
		{s[0], "error", "logging/setLevel error"},
		{s[1], "debug", "logging/setLevel debug"},
		{s[0], "warning", ""}, // debug stays
		{s[1], "", "logging/setLevel warning"},
		{s[0], "warning", ""},
	} {
		if err := r.SetLogLevel(t.Context(), tt.session, tt.level); err != nil {
			t.Fatal(err)
		}
		if got := conn.taken(); got != tt.asks {
			t.Errorf("%s wants %q: asked %q, want %q", tt.session.Principal(), tt.level, got, tt.asks)
		}
	}
	if err := r.SetLogLevel(t.Context(), s[1], "debug"); err != nil {
		t.Fatal(err)
	}
	s[1].Close()
	server.work.Wait()
	if got := conn.taken(); got != "logging/setLevel debug, logging/setLevel warning" {
		t.Errorf("after the end of a session: asked %s", got)
	}
	if err := r.SetLogLevel(t.Context(), s[0], "loud"); err == nil {
		t.Error("loud is a level")
	}
	conn.hello.Capabilities = json.RawMessage(`{}`)
	if err := r.SetLogLevel(t.Context(), s[0], "debug"); err != nil || conn.taken() != "" {
		t.Errorf("a server without levels was asked: %v", err)
	}
	server.stopped = errors.New("removed")
	r.Close()
	if err := r.SetLogLevel(t.Context(), s[0], "debug"); err != server.stopped {
		t.Errorf("after the end: %v", err)
	}
}

// TestSubscribersAreBounded: beyond the bound a resource is refused, and a session hears nothing.
func TestSubscribersAreBounded(t *testing.T) {
	server, r := newServer(t, nil)
	for range maxSubscribers {
		r.Subscribe(nil, func(string, json.RawMessage) {})
	}
	var e *mcp.Error
	if _, err := r.Resource("z:1", func(json.RawMessage) {}); !errors.As(err, &e) || e.Kind != mcp.KindOverloaded || !strings.Contains(e.Message, `upstream "files" has 10000 subscriptions`) {
		t.Errorf("%v", err)
	}
	stop := r.Subscribe(nil, func(string, json.RawMessage) { t.Error("one too many hears") })
	server.shared.Notice("notifications/tools/list_changed", json.RawMessage(`{}`))
	stop()
}
