package passthrough_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

func (s *scripted) Target() (passthrough.Target, bool) { return passthrough.Target{}, false }

func (s *scripted) Ready(context.Context) (mcp.Hello, error) {
	if s.hello.Version == "" {
		return mcp.Hello{Version: mcp.V20251125, ServerInfo: json.RawMessage(`{"name":"scripted","version":"1"}`), Capabilities: json.RawMessage(`{"logging":{}}`)}, nil
	}
	return s.hello, nil
}

func (s *scripted) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if s.call != nil {
		result, err := s.call(ctx, method, params, back)
		return json.RawMessage(result), err
	}
	return json.RawMessage(`{"name":"` + s.name + `"}`), nil
}

func (s *scripted) Notify(context.Context, string, json.RawMessage) error { return nil }

func (s *scripted) CheckParamHeaders(context.Context, string, json.RawMessage, http.Header) error {
	return nil
}

func (s *scripted) Subscribe(_ context.Context, fn func(string, json.RawMessage)) func() {
	s.subscribers.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = func(method string, params []byte) { fn(method, params) }
	return func() { s.subscribers.Add(-1) }
}

func (s *scripted) SubscribeResource(_ context.Context, _ string, _ func(json.RawMessage)) (func(), error) {
	s.subscribers.Add(1)
	return func() { s.subscribers.Add(-1) }, nil
}

func (s *scripted) SetLogLevel(_ context.Context, level string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.levels = append(s.levels, level)
	return nil
}

// left is how many subscribers have not gone.
func (s *scripted) left() int64 { return s.subscribers.Load() }

// serveScripted starts a Router in front of an upstream in memory: a scripted, or
// what embeds one.
func serveScripted(t *testing.T, up interface {
	passthrough.Upstream
	left() int64
}) *env {
	t.Helper()
	rt := passthrough.New(passthrough.Options{
		Find:  func(name string) (passthrough.Upstream, bool) { return up, name == "fake" },
		Names: func() []string { return []string{"fake"} },
	})
	srv := httptest.NewServer(rt)
	e := &env{t: t, url: srv.URL, router: rt, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		e.client.CloseIdleConnections()
		srv.Close()
		if n := up.left(); n != 0 {
			t.Errorf("%d subscribers are left", n)
		}
	})
	return e
}

// TestLogLevels: each session gets the log messages it wants, although they share
// a server that has one level.
func TestLogLevels(t *testing.T) {
	up := &scripted{call: func(ctx context.Context, _ string, _ []byte, back mcp.Handler) (string, error) {
		for _, level := range []string{"debug", "info", "warning", "error"} {
			params := json.RawMessage(`{"level":"` + level + `","data":"x"}`)
			if _, err := back.Serve(ctx, &mcp.Request{Method: "notifications/message", Params: params, Peer: mcp.NoPeer}); err != nil {
				return "", err
			}
		}
		return `{}`, nil
	}}
	e := serveScripted(t, up)
	levelsOf := func(body string, header ...string) string {
		var got []string
		for _, m := range e.post(mcpPath, body, header...).msgs {
			if level := rawjson.Text(rawjson.GetPath([]byte(m), "params", "level")); level != "" {
				got = append(got, level)
			}
		}
		return strings.Join(got, " ")
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	quiet, loud := e.initialize("2025-11-25"), e.initialize("2025-11-25")
	if got := levelsOf(call, "Mcp-Session-Id", quiet); got != "debug info warning error" {
		t.Errorf("nobody has set a level: %s", got)
	}
	set := func(session, level string) result {
		return e.post(mcpPath, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"`+level+`"}}`, "Mcp-Session-Id", session)
	}
	set(quiet, "error")
	set(loud, "debug")
	if res := set(loud, "shout"); !strings.Contains(res.body, `"code":-32602`) {
		t.Errorf("a level that is none: %s", res.body)
	}
	for _, tt := range []struct{ who, got, want string }{
		{"quiet", levelsOf(call, "Mcp-Session-Id", quiet), "error"},
		{"loud", levelsOf(call, "Mcp-Session-Id", loud), "debug info warning error"},
		{"no wish", levelsOf(call, "Mcp-Session-Id", e.initialize("2025-11-25")), "info warning error"},
		{"modern, no wish", levelsOf(modern(`"id":1,"method":"tools/call"`, `"name":"x"`), modernHeader("tools/call", "x")...), ""},
		{"modern, warning", levelsOf(strings.Replace(modern(`"id":1,"method":"tools/call"`, `"name":"x"`), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"warning",`, 1),
			modernHeader("tools/call", "x")...), "warning error"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.who, tt.got, tt.want)
		}
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	if want := []string{"error", "debug", "warning"}; !slices.Equal(up.levels, want) {
		t.Errorf("the server was asked for %v, want %v", up.levels, want)
	}
}

// TestClientsThatCannotBeAsked: what a server wants to ask and the client does not
// declare to answer is refused with a reason.
func TestClientsThatCannotBeAsked(t *testing.T) {
	up := &scripted{hello: mcp.Hello{Version: mcp.V20260728, Modern: true, Capabilities: json.RawMessage(`{"tools":{}}`)}}
	up.call = func(context.Context, string, []byte, mcp.Handler) (string, error) {
		return `{"resultType":"input_required","inputRequests":{},"requestState":"s"}`, nil
	}
	e := serveScripted(t, up)
	if res := e.post(mcpPath, modern(`"id":1,"method":"tools/call"`, `"name":"x"`), modernHeader("tools/call", "x")...); !strings.Contains(res.body, `"requestState":"s"`) {
		t.Errorf("a modern agent and server: %d %s", res.status, res.body)
	}

	legacy := &scripted{call: func(ctx context.Context, _ string, _ []byte, back mcp.Handler) (string, error) {
		_, err := back.Serve(ctx, &mcp.Request{ID: "1", Method: "roots/list", Peer: mcp.NoPeer})
		return `{}`, err
	}}
	e = serveScripted(t, legacy)
	res := e.post(mcpPath, modern(`"id":1,"method":"tools/call"`, `"name":"x"`), modernHeader("tools/call", "x")...)
	if !strings.Contains(res.body, `"kind":"missing_capability"`) || !strings.Contains(res.body, `upstream \"fake\" asked for roots/list`) {
		t.Errorf("modern agent of a legacy server: %d %s", res.status, res.body)
	}
}

// TestDiscover: a modern agent learns of a legacy server what that said in its
// handshake, completed.
func TestDiscover(t *testing.T) {
	e := serveScripted(t, &scripted{hello: mcp.Hello{Version: mcp.V20250618, Instructions: "be nice",
		ServerInfo: json.RawMessage(`{"name":"n","version":"2"}`), Capabilities: json.RawMessage(`{"tools":{"listChanged":true},"x":{"n":12345678901234567890}}`)}})
	res := e.post(mcpPath, modern(`"id":1,"method":"server/discover"`, ``), modernHeader("server/discover", "")...)
	want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",` +
		`"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"tools":{"listChanged":true},"x":{"n":12345678901234567890}},` +
		`"instructions":"be nice","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"2"}}}}`
	if res.body != want {
		t.Errorf("%d %s", res.status, res.body)
	}
	// A list of a legacy server may be cached by nobody.
	res = e.post(mcpPath, modern(`"id":1,"method":"tools/list"`, ``), modernHeader("tools/list", "")...)
	for _, field := range []string{`"ttlMs":0`, `"cacheScope":"private"`, `"resultType":"complete"`} {
		if !strings.Contains(res.body, field) {
			t.Errorf("%s is missing: %s", field, res.body)
		}
	}
	// The older version counts.
	for asked, want := range map[string]string{"2025-11-25": "2025-06-18", "2025-03-26": "2025-03-26", "1999-01-01": "2025-06-18"} {
		res := e.post(mcpPath, strings.Replace(initRequest, "2025-11-25", asked, 1))
		if got := rawjson.Text(rawjson.GetPath([]byte(res.body), "result", "protocolVersion")); got != want {
			t.Errorf("asked for %s: %s, want %s", asked, got, want)
		}
	}
}

// TestSubscriptionsEnd: what a session subscribed to ends with it.
func TestSubscriptionsEnd(t *testing.T) {
	up := &scripted{}
	e := serveScripted(t, up)
	id := e.initialize("2025-11-25")
	for _, uri := range []string{"a", "b", "a"} {
		if res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`, "Mcp-Session-Id", id); !strings.HasSuffix(res.body, `"result":{}}`) {
			t.Errorf("%s: %s", uri, res.body)
		}
	}
	if n := up.subscribers.Load(); n != 3 { // the session itself, a, b
		t.Errorf("%d subscribers", n)
	}
	e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"a"}}`, "Mcp-Session-Id", id)
	if n := up.subscribers.Load(); n != 2 {
		t.Errorf("%d subscribers after unsubscribe", n)
	}
	if res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{}}`, "Mcp-Session-Id", id); !strings.Contains(res.body, "-32602") {
		t.Errorf("no uri: %s", res.body)
	}
	e.do(e.request(context.Background(), http.MethodDelete, mcpPath, "", "Mcp-Session-Id", id))
	if n := up.subscribers.Load(); n != 0 {
		t.Errorf("%d subscribers after DELETE", n)
	}
}
