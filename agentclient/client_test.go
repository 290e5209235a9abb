package agentclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/agentserver"
	"github.com/weir-mcp/weir/mcp"
)

func newClient(t *testing.T, router, token string, options ...Option) *Client {
	t.Helper()
	c, err := New(router, token, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serve answers as a router would.
func serve(t *testing.T, f http.HandlerFunc) (url string, hits *atomic.Int32) {
	t.Helper()
	hits = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		f(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, hits
}

// message reads the posted request.
func message(t *testing.T, r *http.Request) (id, method string, params json.RawMessage) {
	t.Helper()
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      string          `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &m) != nil || m.Version != "2.0" || m.ID == "" {
		t.Errorf("posted %s, %v", body, err)
	}
	return m.ID, m.Method, m.Params
}

// What is posted is one request without session, with the token.
func TestRequest(t *testing.T) {
	url, hits := serve(t, func(w http.ResponseWriter, r *http.Request) {
		id, method, params := message(t, r)
		if r.Method != http.MethodPost || r.URL.EscapedPath() != "/base/mcps/a%20b/mcp" || r.Header.Get("Authorization") != "Bearer tok" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		if method != "tools/call" || string(params) != `{"arguments":{"n":12345678901234567890},"name":"x"}` {
			t.Errorf("%s %s", method, params)
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"result":{"content":[{"type":"text","text":"hi"}],"extra":12345678901234567890}}`, id)
	})
	c := newClient(t, url+"/base/", "tok")
	r, err := c.CallTool(t.Context(), "a b", "x", json.RawMessage(`{"n":12345678901234567890}`))
	if err != nil || r.Text() != "hi" || !strings.Contains(string(r.Raw), "12345678901234567890") || hits.Load() != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestFallbacks(t *testing.T) {
	for _, name := range []string{"ROUTER_HOST", "ROUTER_PORT", "AGENT_TOKEN"} {
		t.Setenv(name, "")
	}
	env := func(name string) string {
		return map[string]string{"ROUTER_HOST": "router.example", "ROUTER_PORT": "9", "AGENT_TOKEN": "env"}[name]
	}
	for _, c := range []struct {
		router, token string
		options       []Option
		base, with    string
	}{
		{"", "", nil, "http://localhost:8088", ""},
		{"", "", []Option{WithEnv(env)}, "http://router.example:9", "env"},
		{"https://r.example/x/", "own", []Option{WithEnv(env)}, "https://r.example/x", "own"},
		{"127.0.0.1:77", "", nil, "http://127.0.0.1:77", ""},
	} {
		got := newClient(t, c.router, c.token, c.options...)
		if got.base != c.base || got.token != c.with {
			t.Errorf("%q, %q: %s with %q", c.router, c.token, got.base, got.token)
		}
	}
	for name, value := range map[string]string{"ROUTER_HOST": "10.0.0.9", "ROUTER_PORT": "99", "AGENT_TOKEN": "process"} {
		t.Setenv(name, value)
	}
	if got := newClient(t, "", ""); got.base != "http://10.0.0.9:99" || got.token != "process" {
		t.Errorf("the process's: %s with %q", got.base, got.token)
	}
	for _, bad := range []string{"ftp://x", "http://", "://"} {
		if _, err := New(bad, ""); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Errors keep code, message and data, whatever the HTTP status; what is no answer
// says why. Nothing is sent twice.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string // ID stands for the request's id
		code   int    // of an *Error
		says   string
		kind   mcp.Kind // of an *mcp.Error
	}{
		"answered":        {200, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32002,"message":"QueueFull","data":{"kind":"queue_full","limit":3}}}`, -32002, "QueueFull", 0},
		"with a status":   {404, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Agent 'x' not found","data":{"agents":["y"]}}}`, -32601, "Agent 'x'", 0},
		"without id":      {401, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no token"}}`, -32001, "no token", 0},
		"HTML":            {503, `<h1>busy</h1>`, 0, "503", mcp.KindUpstreamUnavailable},
		"not MCP":         {200, `{}`, 0, "not MCP", mcp.KindUpstreamProtocol},
		"another request": {200, `{"jsonrpc":"2.0","id":"other","result":{}}`, 0, "another request", mcp.KindUpstreamProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			url, hits := serve(t, func(w http.ResponseWriter, r *http.Request) {
				id, _, _ := message(t, r)
				w.WriteHeader(c.status)
				fmt.Fprint(w, strings.ReplaceAll(c.body, "ID", `"`+id+`"`))
			})
			_, err := newClient(t, url, "").CallTool(t.Context(), "x", "y", nil)
			var wire *Error
			var own *mcp.Error
			switch {
			case c.code != 0:
				if !errors.As(err, &wire) || wire.Code != c.code || !strings.Contains(wire.Message, c.says) {
					t.Errorf("got %v", err)
				}
				if name == "answered" && string(wire.Data) != `{"kind":"queue_full","limit":3}` {
					t.Errorf("data %s", wire.Data)
				}
			default:
				if !errors.As(err, &own) || own.Kind != c.kind || !strings.Contains(own.Message, c.says) || !strings.Contains(own.Message, `agent "x"`) {
					t.Errorf("got %v", err)
				}
			}
			if hits.Load() != 1 {
				t.Errorf("sent %d times", hits.Load())
			}
		})
	}
	s := httptest.NewServer(nil)
	s.Close()
	_, err := newClient(t, s.URL, "").ListTools(t.Context(), "x")
	if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamUnavailable || !errors.Is(err, mcp.ErrNotSent) {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := newClient(t, s.URL, "").Request(t.Context(), "..", "ping", nil); err == nil {
		t.Error("a name that leads elsewhere is taken")
	}
}

// A stream: progress in order, before the response; a stream that breaks off
// is an error, and the call is not made again.
func TestStream(t *testing.T) {
	whole := true
	url, hits := serve(t, func(w http.ResponseWriter, r *http.Request) {
		id, _, params := message(t, r)
		if want := fmt.Sprintf(`{"arguments":{},"name":"y","_meta":{"progressToken":%q}}`, id); string(params) != want {
			t.Errorf("params %s, want %s", params, want)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%q,\"progress\":%d,\"total\":3,\"message\":\"m\"}}\n\n", id, i+1)
		}
		fmt.Fprint(w, ": keep-alive\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"other\",\"progress\":9}}\n\n")
		if whole {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%q,\"result\":{\"content\":[]}}\n\n", id)
		}
	})
	c := newClient(t, url, "")
	var got []Progress
	r, err := c.CallTool(t.Context(), "x", "y", nil, OnProgress(func(p Progress) { got = append(got, p) }))
	if err != nil || r.Text() != "" || len(got) != 3 || got[2] != (Progress{3, 3, "m"}) {
		t.Errorf("got %v, %v", got, err)
	}
	whole = false
	_, err = c.CallTool(t.Context(), "x", "y", nil, OnProgress(func(Progress) {}))
	if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamUnavailable || hits.Load() != 2 {
		t.Errorf("broken off: %v after %d requests", err, hits.Load())
	}
}

func TestContext(t *testing.T) {
	url, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		message(t, r) // a server sees that its client is gone once it has read the body
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := newClient(t, url, "").ListTools(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// Lists are read to their end, and one that has none is given up.
func TestPages(t *testing.T) {
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		id, _, params := message(t, r)
		next := `,"nextCursor":"2"`
		if strings.Contains(string(params), `"2"`) && r.URL.Path != "/mcps/endless/mcp" {
			next = ""
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"result":{"prompts":[{"name":"p"}]%s}}`, id, next)
	})
	c := newClient(t, url, "")
	if all, err := c.ListPrompts(t.Context(), "x"); err != nil || len(all) != 2 {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err := c.ListPrompts(t.Context(), "endless"); err == nil {
		t.Error("a list without end is read")
	}
}

// Everything against a real agent.
func TestAgent(t *testing.T) {
	type in struct {
		N int `json:"n"`
	}
	job := agentserver.Func("job", "Works", func(ctx context.Context, v in) (int, error) {
		fmt.Fprint(agentserver.CallOf(ctx), "working")
		return v.N * 2, nil
	})
	job.Async = true
	hang := agentserver.Func("hang", "Hangs", func(ctx context.Context, _ struct{}) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
	hang.Async = true
	s, err := agentserver.New(agentserver.Options{
		Name: "demo", Concurrency: 2,
		Tools: []agentserver.Tool{job, hang, agentserver.Func("fails", "Fails", func(context.Context, struct{}) (int, error) { return 0, errors.New("broken") })},
		Resources: []agentserver.Resource{agentserver.ResourceFunc("note", "note://one", "", func(context.Context, string, map[string]string) ([]byte, error) {
			return []byte("text"), nil
		})},
		Prompts: []agentserver.Prompt{{Name: "short", Messages: []agentserver.PromptMessage{{Role: "user", Content: json.RawMessage(`{"type":"text","text":"be ${how}"}`)}}, Arguments: []agentserver.PromptArgument{{Name: "how"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	defer s.Close(context.Background())
	c, ctx := newClient(t, h.URL, ""), t.Context()

	if tools, err := c.ListTools(ctx, "demo"); err != nil || len(tools) != 3 || tools[2].Name != "job" || !strings.Contains(string(tools[2].InputSchema), `"n"`) {
		t.Errorf("tools %v, %v", tools, err)
	}
	if all, err := c.ListResources(ctx, "demo"); err != nil || len(all) != 1 || all[0].URI != "note://one" {
		t.Errorf("resources %v, %v", all, err)
	}
	if text, err := c.ReadResource(ctx, "demo", "note://one"); err != nil || text != "text" {
		t.Errorf("resource %q, %v", text, err)
	}
	var wire *Error
	if _, err := c.ReadResource(ctx, "demo", "note://two"); !errors.As(err, &wire) || wire.Code != -32001 {
		t.Errorf("no resource: %v", err)
	}
	if all, err := c.ListPrompts(ctx, "demo"); err != nil || len(all) != 1 || all[0].Arguments[0].Name != "how" {
		t.Errorf("prompts %v, %v", all, err)
	}
	if m, err := c.GetPrompt(ctx, "demo", "short", map[string]string{"how": "brief"}); err != nil || len(m) != 1 || m[0].Content.Text != "be brief" || m[0].Role != "user" {
		t.Errorf("prompt %v, %v", m, err)
	}
	if r, err := c.CallTool(ctx, "demo", "fails", nil); err != nil || !r.IsError || r.Text() != "broken" || !strings.Contains(string(r.Meta), "-32000") {
		t.Errorf("fails: %+v, %v", r, err)
	}
	if _, err := c.CallTool(ctx, "other", "fails", nil); !errors.As(err, &wire) || wire.Code != -32601 || wire.Message != "Agent 'other' not found; this is \"demo\"" {
		t.Errorf("another agent: %v", err)
	}
	r, err := c.CallTool(ctx, "demo", "job", in{21})
	if err != nil || r.TaskID() == "" {
		t.Fatalf("job: %+v, %v", r, err)
	}
	task, err := c.WaitTask(ctx, "demo", r.TaskID(), 5*time.Millisecond)
	if err != nil || task.Status != "completed" || !strings.Contains(string(task.Result), `{"result":42}`) || task.LogTail != "working" || task.CreatedAt.IsZero() {
		t.Errorf("task %+v, %v", task, err)
	}
	r, err = c.CallTool(ctx, "demo", "hang", nil)
	if err != nil {
		t.Fatal(err)
	}
	if task, err := c.CancelTask(ctx, "demo", r.TaskID()); err != nil || task.Status != "cancelled" || !task.Done() {
		t.Errorf("cancelled %+v, %v", task, err)
	}
	if _, err := c.Task(ctx, "demo", "none"); !errors.As(err, &wire) {
		t.Errorf("no task: %v", err)
	}
}
