package passthrough_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// strictJudge writes all params anew, refuses the tools and URIs that it is told
// of, and notes what it is asked.
type strictJudge struct {
	mu      sync.Mutex // guards below
	refused []string
	judged  []string
}

func (*strictJudge) Judges(string) bool { return true }

func (j *strictJudge) Judge(_ context.Context, upstream string, r *mcp.Request, taskTool string) (json.RawMessage, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judged = append(j.judged, strings.TrimSpace(r.Method+" "+taskTool))
	what := rawjson.Text(rawjson.Get(r.Params, "name")) + rawjson.Text(rawjson.Get(r.Params, "uri")) + taskTool
	if what != "" && slices.Contains(j.refused, what) || slices.Contains(j.refused, r.Method) {
		return nil, mcp.Errorf(mcp.KindPermissionDenied, "%s of %q at %s: no", r.Method, what, upstream)
	}
	if len(r.Params) == 0 {
		return nil, nil
	}
	return rawjson.AppendRewritten(nil, r.Params)
}

func (j *strictJudge) Shown(_ context.Context, _ string, _ *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	return result, nil
}

func (j *strictJudge) Refuses(_ context.Context, _, _, name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.refused, name)
}

func (j *strictJudge) refuse(what ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused, j.judged = what, nil
}

func (j *strictJudge) asked() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.judged)
}

// listening is an upstream that notes all it is sent, and tells of resources.
type listening struct {
	scripted
	noted sync.Mutex // guards below
	got   []string
	fns   map[string]func(json.RawMessage)
}

func (l *listening) note(what string) {
	l.noted.Lock()
	defer l.noted.Unlock()
	l.got = append(l.got, what)
}

func (l *listening) sent() []string {
	l.noted.Lock()
	defer l.noted.Unlock()
	got := l.got
	l.got = nil
	return got
}

func (l *listening) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	l.note(method + " " + string(params))
	return l.scripted.Call(ctx, method, params, back)
}

func (l *listening) Notify(_ context.Context, method string, params json.RawMessage) error {
	l.note(method + " " + string(params))
	return nil
}

func (l *listening) SubscribeResource(_ context.Context, uri string, fn func(json.RawMessage)) (func(), error) {
	l.note("subscribed " + uri)
	l.noted.Lock()
	defer l.noted.Unlock()
	l.fns[uri] = fn
	return func() {}, nil
}

func (l *listening) update(uri, changed string) {
	l.noted.Lock()
	fn := l.fns[uri]
	l.noted.Unlock()
	fn(append(rawjson.AppendString([]byte(`{"uri":`), changed), '}'))
}

// serveJudged starts a Router in front of an upstream in memory. A token names its
// principal.
func serveJudged(t *testing.T, up passthrough.Upstream, j passthrough.Judge) *env {
	t.Helper()
	rt := passthrough.New(passthrough.Options{
		Guard: guard.New(guard.Options{Authenticate: guard.ByName(func(bearer string) (string, bool) { return bearer, true })}),
		Find:  func(name string) (passthrough.Upstream, bool) { return up, name == "fake" },
		Names: func() []string { return []string{"fake"} }, Judge: j,
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
	})
	return e
}

// TestEveryMethodIsJudged: nothing reaches an upstream unjudged, and what reaches
// it is what the Judge returned.
func TestEveryMethodIsJudged(t *testing.T) {
	j := &strictJudge{}
	up := &listening{fns: map[string]func(json.RawMessage){}}
	e := serveJudged(t, up, j)
	id := e.initialize("2025-11-25")
	post := func(body string) result { return e.post(mcpPath, body, "Mcp-Session-Id", id) }
	if asked, sent := j.asked(), up.sent(); len(asked)+len(sent) != 0 {
		t.Errorf("the handshake is answered here: judged %q, sent %q", asked, sent)
	}
	for _, method := range []string{"tools/call", "resources/read", "prompts/get", "completion/complete", "resources/subscribe", "tasks/get", "tasks/list", "tools/list", "evil/custom", "subscriptions/listen", "server/future"} {
		params := `{ "uri" : "x:y" , "name":"\u0061" }`
		j.refuse(method)
		if res := post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`); !strings.Contains(res.body, "permission_denied") {
			t.Errorf("%s: %d %s", method, res.status, res.body)
		}
		if asked, sent := j.asked(), up.sent(); len(asked) != 1 || len(sent) != 0 {
			t.Errorf("%s: judged %q, sent %q", method, asked, sent)
		}
		j.refuse()
		if method == "tasks/get" {
			continue // of which the one who asks has made none
		}
		post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
		want := method + ` {"uri":"x:y","name":"a"}`
		if method == "resources/subscribe" {
			want = "subscribed x:y"
		}
		if sent := up.sent(); len(sent) != 1 || sent[0] != want {
			t.Errorf("%s: sent %q", method, sent)
		}
	}
	// Notifications by name are judged; requests without an id are none.
	j.refuse("notifications/evil")
	post(`{"jsonrpc":"2.0","method":"notifications/evil"}`)
	post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	for _, method := range []string{"tools/call", "tasks/cancel", "completion/complete", "evil/custom", "resources/subscribe"} {
		post(`{"jsonrpc":"2.0","method":"` + method + `","params":{"name":"a","uri":"x:z"}}`)
	}
	if sent := up.sent(); len(sent) != 1 || sent[0] != "notifications/roots/list_changed " {
		t.Errorf("sent %q", sent)
	}
	for _, method := range []string{"ping", "logging/setLevel", "resources/unsubscribe"} {
		j.refuse(method)
		if res := post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"level":"info","uri":"x:y"}}`); strings.Contains(res.body, "permission_denied") {
			t.Errorf("%s: %s", method, res.body)
		}
	}
}

// TestTasksOfRefusedTools: what is about a task is refused as its tool is, at
// every path, and lists leave such tasks out.
func TestTasksOfRefusedTools(t *testing.T) {
	j := &strictJudge{}
	up := &listening{}
	made := 0
	up.call = func(_ context.Context, method string, _ []byte, _ mcp.Handler) (string, error) {
		switch method {
		case "tools/call":
			made++
			return fmt.Sprintf(`{"task":{"taskId":"t%d","status":"working"}}`, made), nil
		case "tasks/list":
			return `{"tasks":[{"taskId":"t1"},{"taskId":"t2"},{"taskId":"t3"},{"taskId":"t9"}]}`, nil
		}
		return `{"status":"completed","content":[]}`, nil
	}
	e := serveJudged(t, up, j)
	for _, tool := range []string{"good", "bad", strings.Repeat("long", 200)} {
		e.post(mcpPath, call(tool))
	}
	post := func(who, method, task string) result {
		return e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"taskId":"`+task+`"}}`, "Authorization", "Bearer "+who)
	}
	page := func(method, task string) result {
		return e.do(e.request(t.Context(), method, "/mcps/fake/task?taskId="+task, ""))
	}
	j.refuse("bad")
	up.sent()
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/update"} {
		if res := post("alice", method, "t2"); !strings.Contains(res.body, `of \"bad\" at fake: no`) {
			t.Errorf("%s: %s", method, res.body)
		}
		if res := post("bob", method, "t2"); !strings.Contains(res.body, "no such task") || strings.Contains(res.body, "bad") {
			t.Errorf("%s of another's task: %s", method, res.body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if res := page(method, "t2"); res.status != http.StatusForbidden || !strings.Contains(res.body, "permission_denied") {
			t.Errorf("the page, %s: %d %s", method, res.status, res.body)
		}
	}
	if sent := up.sent(); len(sent) != 0 {
		t.Errorf("sent %q", sent)
	}
	if res := page(http.MethodGet, "t1"); res.status != http.StatusOK {
		t.Errorf("another's: %d %s", res.status, res.body)
	}
	if res := post("alice", "tasks/get", "t1"); !strings.Contains(res.body, "completed") {
		t.Errorf("another tool's: %s", res.body)
	}
	if res := post("alice", "tasks/list", ""); !strings.Contains(res.body, `"tasks":[{"taskId":"t1"},{"taskId":"t3"}]`) {
		t.Errorf("%s", res.body)
	}
	j.refuse("") // what is not known
	if res := post("alice", "tasks/list", ""); !strings.Contains(res.body, `"tasks":[{"taskId":"t1"},{"taskId":"t2"}]`) {
		t.Errorf("%s", res.body)
	}
	if asked := j.asked(); len(asked) != 1 || asked[0] != "tasks/list" {
		t.Errorf("%q", asked)
	}
}

// TestUpdatesOfWhatMayNotBeRead: an agent hears of resources below one that it has
// subscribed to, except of those that it must not read.
func TestUpdatesOfWhatMayNotBeRead(t *testing.T) {
	j := &strictJudge{}
	j.refuse("x:y/secret")
	up := &listening{fns: map[string]func(json.RawMessage){}}
	up.hello = mcp.Hello{Version: mcp.V20251125, Capabilities: json.RawMessage(`{"resources":{"subscribe":true}}`)}
	e := serveJudged(t, up, j)
	updates := func(stream *http.Request) string {
		resp, err := e.client.Do(stream)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var seen strings.Builder
		buf := make([]byte, 4096)
		for told := false; !strings.Contains(seen.String(), "x:y/open"); {
			up.noted.Lock()
			ready := up.fns["x:y"] != nil
			up.noted.Unlock()
			if ready && !told {
				up.update("x:y", "x:y/secret")
				up.update("x:y", "x:y/open")
				told = true
			}
			n, err := resp.Body.Read(buf)
			if seen.Write(buf[:n]); err != nil {
				t.Fatalf("%q, %v", seen.String(), err)
			}
		}
		return seen.String()
	}
	id := e.initialize("2025-11-25")
	e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:y"}}`, "Mcp-Session-Id", id)
	legacy := updates(e.request(t.Context(), http.MethodGet, mcpPath, "", "Mcp-Session-Id", id, "Accept", "text/event-stream"))
	up.noted.Lock()
	delete(up.fns, "x:y")
	up.noted.Unlock()
	listen := modern(`"id":1,"method":"subscriptions/listen"`, `"notifications":{"resourceSubscriptions":["x:y"]}`)
	body := updates(e.request(t.Context(), http.MethodPost, mcpPath, listen, modernHeader("subscriptions/listen", "")...))
	for _, seen := range []string{legacy, body} {
		if strings.Contains(seen, "secret") {
			t.Errorf("told of what may not be read: %s", seen)
		}
	}

	// A modern upstream tells in its own subscription.
	up.hello = mcp.Hello{Version: mcp.V20260728, Modern: true, Capabilities: json.RawMessage(`{"resources":{"subscribe":true}}`)}
	up.call = func(ctx context.Context, method string, _ []byte, back mcp.Handler) (string, error) {
		for _, uri := range []string{"x:y/secret", "x:y/open"} {
			if _, err := back.Serve(ctx, &mcp.Request{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"` + uri + `"}`), Peer: mcp.NoPeer}); err != nil {
				return "", err
			}
		}
		return `{}`, nil
	}
	if res := e.post(mcpPath, listen, modernHeader("subscriptions/listen", "")...); strings.Contains(res.body, "secret") || !strings.Contains(res.body, "x:y/open") {
		t.Errorf("%d %s", res.status, res.body)
	}
}
