package passthrough_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// judgeFunc is a Judge that wants to see all calls.
type judgeFunc func(ctx context.Context, upstream string, r *mcp.Request) error

func (judgeFunc) Judges(string) bool { return true }

func (f judgeFunc) Judge(ctx context.Context, upstream string, r *mcp.Request, _ string) (json.RawMessage, error) {
	return r.Params, f(ctx, upstream, r)
}

func (judgeFunc) Shown(_ context.Context, _ string, _ *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	return result, nil
}

func (judgeFunc) Refuses(context.Context, string, string, string) bool { return false }

var everything = judgeFunc(func(context.Context, string, *mcp.Request) error { return nil })

// noCounter refuses one tool, one prompt and one resource, until it is told not to.
type noCounter struct{ not atomic.Bool }

func (*noCounter) Judges(string) bool { return true }

func (*noCounter) Shown(_ context.Context, _ string, _ *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	return result, nil
}

func (*noCounter) Refuses(context.Context, string, string, string) bool { return false }

func (n *noCounter) Judge(ctx context.Context, upstream string, r *mcp.Request, _ string) (json.RawMessage, error) {
	what := rawjson.Text(rawjson.Get(r.Params, "name")) + rawjson.Text(rawjson.Get(r.Params, "uri"))
	if upstream != "fake" || mcp.Caller(ctx) == nil {
		return nil, errors.New("whose call is it?")
	}
	if n.not.Load() {
		return r.Params, nil
	}
	if what == "counter" || what == "file:///secret" || what == "secret" {
		return nil, mcp.Errorf(mcp.KindPermissionDenied, "%s of %q: no", r.Method, what)
	}
	return r.Params, nil
}

// judged runs a test over HTTP and stdio with a Judge.
func judged(t *testing.T, j passthrough.Judge, cfg fakemcp.Config, test func(t *testing.T, e *env)) {
	for _, way := range ways[:2] {
		t.Run(way.name, func(t *testing.T) {
			test(t, way.start(t, cfg, func(_ *config.Server, o *passthrough.Options) { o.Judge = j }).ready())
		})
	}
}

// TestJudgeRefuses: what a Judge refuses reaches no upstream, in any form in
// which it can be sent, and what stands beside it is answered.
func TestJudgeRefuses(t *testing.T) {
	const (
		call   = `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"counter"}}`
		denied = `"error":{"code":-32001,"message":"tools/call of \"counter\": no","data":{"kind":"permission_denied"}}`
	)
	var j noCounter
	judged(t, &j, fakemcp.Config{}, func(t *testing.T, e *env) {
		j.not.Store(false)
		id := e.initialize("2025-03-26")
		for _, tt := range []struct {
			name, body string
			header     []string
		}{
			{"a session", call, []string{"Mcp-Session-Id", id}},
			{"a session, JSON only", call, []string{"Mcp-Session-Id", id, "Accept", "application/json"}},
			{"no session", call, nil},
			{"modern", modern(`"id":"c","method":"tools/call"`, `"name":"counter"`), modernHeader("tools/call", "counter")},
			{"an escaped name", strings.Replace(call, "counter", `c\u006funter`, 1), []string{"Mcp-Session-Id", id}},
		} {
			for _, path := range []string{"/mcps/fake/mcp", "/mcp/fake/mcp", "/mcps/f%61ke/mcp"} {
				res := e.post(path, tt.body, tt.header...)
				if len(res.msgs) != 1 || !strings.Contains(res.msgs[0], denied) || !strings.Contains(res.msgs[0], `"id":"c"`) {
					t.Errorf("%s at %s: %d %s", tt.name, path, res.status, res.body)
				}
			}
		}
		for _, header := range [][]string{{"Mcp-Session-Id", id}, {"Mcp-Session-Id", id, "Accept", "application/json"}} {
			res := e.post(mcpPath, `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}},`+call+`]`, header...)
			if all := strings.Join(res.msgs, "\n"); res.status != http.StatusOK || !strings.Contains(all, denied) || !strings.Contains(all, `"text":"hi"`) {
				t.Errorf("a batch: %d %s", res.status, res.body)
			}
		}
		e.post(mcpPath, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"counter"}}`, "Mcp-Session-Id", id)
		e.post(mcpPath, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`, "Mcp-Session-Id", id)
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///secret"}}`, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"secret"}}`,
		} {
			if res := e.post(mcpPath, body, "Mcp-Session-Id", id); !strings.Contains(res.body, `"permission_denied"`) {
				t.Errorf("%s: %s", body, res.body)
			}
		}
		// The tool says how often it has run: never before.
		j.not.Store(true)
		res := e.post(mcpPath, call, "Mcp-Session-Id", id)
		if !strings.Contains(res.body, `"text":"1"`) {
			t.Errorf("the tool has run: %s", res.body)
		}
		// A stream of events is the answer to what may pass, as ever.
		progress := e.post(mcpPath, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"progress","arguments":{"steps":2},"_meta":{"progressToken":"p"}}}`, "Mcp-Session-Id", id)
		if n := len(progress.msgs); n < 2 || !strings.Contains(progress.body, "notifications/progress") {
			t.Errorf("%d messages: %s", n, progress.body)
		}
	})
}

// TestJudgeAsks: a Judge can ask the person at the client, in both eras and with
// either way to the upstream, before the upstream is called.
func TestJudgeAsks(t *testing.T) {
	j := judgeFunc(func(ctx context.Context, _ string, r *mcp.Request) error {
		if r.Method != "tools/call" {
			return nil
		}
		answer, err := r.Peer.Call(ctx, "elicitation/create", json.RawMessage(`{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}`), nil)
		if err != nil || rawjson.Text(rawjson.Get(answer, "action")) != "accept" {
			return mcp.Errorf(mcp.KindPermissionDenied, "not approved: %v", err)
		}
		return nil
	})
	judged(t, j, fakemcp.Config{}, func(t *testing.T, e *env) {
		var asked atomic.Int32
		for action, want := range map[string]string{"accept": `"text":"hi"`, "decline": ""} {
			c, err := streamable.Dial(t.Context(), streamable.ClientOptions{
				URL: e.url + mcpPath, Name: "the router", Header: http.Header{"Authorization": {"Bearer alice"}},
				Capabilities: json.RawMessage(`{"elicitation":{}}`), ProtocolVersion: mcp.V20251125,
			})
			if err != nil {
				t.Fatal(err)
			}
			person := mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) {
				asked.Add(1)
				return fmt.Appendf(nil, `{"action":%q}`, action), nil
			})
			result, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"echo","arguments":{"text":"hi"}}`), person)
			if want != "" && (err != nil || !strings.Contains(string(result), want)) || want == "" && (err == nil || !strings.Contains(err.Error(), "not approved")) {
				t.Errorf("legacy, %s: %s %v", action, result, err)
			}
			c.Close()

			asking, res := e.modernAsk(mcpPath, "echo", `{"text":"hi"}`, "")
			if rawjson.Text(rawjson.Get(asking, "resultType")) != "input_required" {
				t.Fatalf("modern: %d %s", res.status, res.body)
			}
			result, res = e.modernAsk(mcpPath, "echo", `{"text":"hi"}`, answersTo(t, asking, "elicitation/create", fmt.Sprintf(`{"action":%q}`, action)))
			if want != "" && !strings.Contains(string(result), want) || want == "" && !strings.Contains(res.body, "not approved") {
				t.Errorf("modern, %s: %d %s", action, res.status, res.body)
			}
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("a legacy client was asked %d times", n)
		}
		// Who cannot be asked gets an error, not a call.
		if res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`); !strings.Contains(res.body, "not approved") {
			t.Errorf("no session: %d %s", res.status, res.body)
		}
	})
}

// switched is a Judge that comes and goes.
type switched struct {
	on     atomic.Bool
	judged atomic.Int32
}

func (s *switched) Judges(string) bool { return s.on.Load() }

func (s *switched) Judge(_ context.Context, _ string, r *mcp.Request, _ string) (json.RawMessage, error) {
	s.judged.Add(1)
	return r.Params, nil
}

func (s *switched) Shown(_ context.Context, _ string, _ *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	return result, nil
}

func (s *switched) Refuses(context.Context, string, string, string) bool { return false }

// TestJudgeComesAndGoes: without anything to decide messages are forwarded
// unseen; when that changes, sessions are started anew.
func TestJudgeComesAndGoes(t *testing.T) {
	var j switched
	e := startHTTP(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) { o.Judge = &j }).ready()
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`
	for i, on := range []bool{false, true, false} {
		j.on.Store(on)
		before := j.judged.Load()
		id := e.initialize("2025-11-25")
		if res := e.post(mcpPath, call, "Mcp-Session-Id", id); !strings.Contains(res.body, `"text":"hi"`) {
			t.Fatalf("%d: %d %s", i, res.status, res.body)
		}
		if n := j.judged.Load() - before; n != map[bool]int32{true: 1}[on] {
			t.Errorf("%d: judged %d calls, on is %v", i, n, on)
		}
		j.on.Store(!on)
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if res := e.do(e.request(t.Context(), method, mcpPath, call, "Mcp-Session-Id", id)); res.status != http.StatusNotFound {
				t.Errorf("%d: %s in a session of before: %d %s", i, method, res.status, res.body)
			}
		}
	}
}

// TestJudgeSaysWhen: a refusal that passes tells HTTP clients when to come back,
// in whole seconds and not too early.
func TestJudgeSaysWhen(t *testing.T) {
	j := judgeFunc(func(_ context.Context, _ string, r *mcp.Request) error {
		if r.Method != "tools/call" {
			return nil
		}
		return &mcp.Error{Kind: mcp.KindRateLimited, Message: "too many", Data: json.RawMessage(`{"kind":"rate_limited","retry_after":39.004}`)}
	})
	e := startHTTP(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) { o.Judge = j }).ready()
	res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	if res.status != http.StatusTooManyRequests || res.header.Get("Retry-After") != "40" || !strings.Contains(res.body, `"code":-32005`) {
		t.Errorf("%d, Retry-After %q: %s", res.status, res.header.Get("Retry-After"), res.body)
	}
}
