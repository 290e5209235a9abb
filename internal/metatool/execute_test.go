package metatool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestExecutePasses(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.ID(t, "files", "read_file")
	s := h.Raw(t, `{"_meta":{"progressToken":12345678901234567890,"weir/format":"text"},"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"path":"é\u00e9", "limit":12345678901234567890}},"requestState":"x"}`)
	if s.IsError || s.Content[0].Text != `{"path":"é\u00e9", "limit":12345678901234567890}` {
		t.Errorf("%+v", s)
	}
	if got := fmt.Sprint(s.Env.Provenance); got != "map[protocol:mcp tool:read_file tool_id:"+id+"]" || s.Env.Status != "ok" || s.Env.Stats.Strategy != "passthrough" {
		t.Errorf("envelope %+v", s.Env)
	}
	if n := s.Env.Stats.OriginalTokens; n == nil || *n != token.Count(s.Content[0].Text) {
		t.Errorf("tokens %v", n)
	}
	want := []string{`files {"name":"read_file","arguments":{"path":"é\u00e9", "limit":12345678901234567890},"_meta":{"progressToken":12345678901234567890},"requestState":"x"}`}
	if got := h.Called(); !slices.Equal(got, want) {
		t.Errorf("the upstream got\n%s\nwant\n%s", got, want)
	}
}

func TestExecuteWithoutArguments(t *testing.T) {
	h := newHarness(t, Options{})
	for _, arguments := range []string{`{"tool_id":"` + h.ID(t, "web", "search") + `"}`, `{"tool_id":"` + h.ID(t, "web", "search") + `","args":null}`} {
		if s := h.Tool(t, ToolExecute, arguments); s.IsError || s.Content[0].Text != "{}" {
			t.Errorf("%s: %+v", arguments, s)
		}
	}
}

// A handle in the place of a tool_id is told as what it is, with the call that reads it.
func TestHandleAsToolID(t *testing.T) {
	h := newHarness(t, Options{})
	e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"art_gomktw5eyi2q","args":{}}`))
	if e.Error != "HYDRATE_FAILED" || e.Path != "art_gomktw5eyi2q" || !strings.HasSuffix(e.Message, `tool_view {"handle":"art_gomktw5eyi2q","selector":{"type":"head"}}`) {
		t.Errorf("%+v", e)
	}
}

// Arguments of the tool next to args are shown put right.
func TestArgumentsNextToArgs(t *testing.T) {
	h := newHarness(t, Options{})
	for sent, want := range map[string]string{
		`{"tool_id":"a","path":"b","limit":3}`:                      `{"tool_id":"a","args":{"path":"b","limit":3}}`,
		`{"path":"b","tool_id":"a","args":{"x":1}}`:                 `{"tool_id":"a","args":{"x":1,"path":"b"}}`,
		`{"tool_id":"a","dry_run":true,"x":12345678901234567890}`:   `{"tool_id":"a","dry_run":true,"args":{"x":12345678901234567890}}`,
		`{"tool_id":"a","path":"b","args":{"path":"c"}}`:            `{"tool_id":"files:read#1a2b3c4d","args":{"path":"a.txt"}}`, // which of them is meant?
		`{"tool_id":"a","path":"b","args":[1]}`:                     `{"tool_id":"files:read#1a2b3c4d","args":{"path":"a.txt"}}`,
		`{"tool_id":"a","path":"` + strings.Repeat("b", 600) + `"}`: `{"tool_id":"files:read#1a2b3c4d","args":{"path":"a.txt"}}`,
	} {
		e := calltest.Failure(t, h.Tool(t, ToolExecute, sent))
		if e.Error != "ARGS_INVALID" || string(e.Details.Example) != want {
			t.Errorf("%.80s: %s %s, want %s", sent, e.Message, e.Details.Example, want)
		}
	}
}

// An id without its hash that fits one tool is told in one line; the tool does not run.
func TestIDWithoutItsHash(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.ID(t, "files", "read_file")
	s := h.Tool(t, ToolExecute, `{"tool_id":"files:read_file","args":{"path":"a"}}`)
	if e := calltest.Failure(t, s); e.Error != "HYDRATE_FAILED" || e.Message != "part of a tool_id; call again with all of it: "+id || e.Path != "files:read_file" || len(h.Called()) != 0 {
		t.Errorf("%+v", e)
	}
	if n := token.Count(s.Content[0].Text); n > 60 {
		t.Errorf("%d tokens: %s", n, s.Content[0].Text)
	}
}

func TestExecuteRefusesArguments(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.ID(t, "files", "read_file")
	for _, tt := range []struct{ args, path, told string }{
		{`{}`, "/path", "path is missing"}, {`{"path":1}`, "/path", "/path: must be string, got number"}, {`{"path":"a","limit":1.5}`, "/limit", "/limit: must be integer, got number"},
		{`[]`, "", "must be an object, got array"}, {`"{\"path\":\"a\"}"`, "", "must be an object, got string"}, {`7`, "", "must be an object, got number"},
		{`{"file_path":"a"}`, "/path", "path is missing; file_path is no argument of it; did you mean path?"},
		{`{"lines":3}`, "/path", "path is missing; lines is no argument of it"},
	} {
		s := h.Tool(t, ToolExecute, `{"tool_id":"`+id+`","args":`+tt.args+`}`)
		e := calltest.Failure(t, s)
		if e.Error != "ARGS_INVALID" || *e.Retryable || e.Path != id || e.Message != tt.told {
			t.Errorf("%s: %+v", tt.args, e)
		}
		if n := token.Count(s.Content[0].Text); n > 110 || strings.Count(s.Content[0].Text, id) != 1 {
			t.Errorf("%s: %d tokens: %s", tt.args, n, s.Content[0].Text)
		}
		var program calltest.Failed
		out := h.Raw(t, `{"name":"tool_execute","_meta":{"weir/format":"json"},"arguments":{"tool_id":"`+id+`","args":`+tt.args+`}}`)
		if err := json.Unmarshal(out.StructuredContent, &program); err != nil || program.Details.ToolID != id || len(program.Details.Problems) == 0 || program.Details.Problems[0].Path != tt.path {
			t.Errorf("%s: %s, %v", tt.args, out.StructuredContent, err)
		}
		if !strings.Contains(string(e.Details.Schema), `"required":["path"]`) {
			t.Errorf("%s: the details hold no schema: %s", tt.args, e.Details.Schema)
		}
	}
	if calls := h.Called(); len(calls) != 0 {
		t.Errorf("reached the upstream: %q", calls)
	}
}

func TestExecuteLargeSchemaIsAnArtifact(t *testing.T) {
	h := newHarness(t, Options{})
	schema := `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 30_000) + `"}}}`
	h.Add("big", calltest.Echo, `{"name":"t","description":"d","inputSchema":`+schema+`}`)
	e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "big", "t")+`","args":{"a":1}}`))
	if e.Error != "ARGS_INVALID" || e.Details.Schema != nil || e.Details.SchemaHandle == "" {
		t.Fatalf("%+v", e)
	}
	s := h.Tool(t, ToolView, `{"handle":"`+e.Details.SchemaHandle+`","selector":{"type":"json_path","path":"$.properties.a.type"}}`)
	if s.IsError || s.Content[0].Text != `"string"` {
		t.Errorf("%+v", s)
	}
}

func TestExecuteBrokenSchema(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("bad", calltest.Echo, `{"name":"t","description":"d","inputSchema":{"type":"nonsense"}}`)
	e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "bad", "t")+`","args":{}}`))
	if e.Error != "SCHEMA_INVALID" || *e.Retryable || len(h.Called()) != 0 {
		t.Errorf("%+v", e)
	}
}

func TestExecuteExactIDsOnly(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("bank", calltest.Echo, `{"name":"refund","description":"d","_meta":{"version":"10"}}`)
	id := h.ID(t, "files", "read_file")
	for _, tt := range []struct{ id, nearest string }{
		{"bank:refund@1", "bank:refund@10"},
		{"bank:refund", "bank:refund@10"},
		{strings.ToUpper(id), ""},
		{"read_file", id},
		{"files:raed_file#00000000", id},
		{"", ""},
		{"resource::files:x#00000000", ""},
	} {
		e := calltest.Failure(t, h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{}}`, tt.id)))
		if e.Error != "HYDRATE_FAILED" || *e.Retryable {
			t.Errorf("%s: %+v", tt.id, e)
		}
		if tt.nearest != "" && !slices.Contains(e.Details.Nearest, tt.nearest) {
			t.Errorf("%s: nearest %q, want %s", tt.id, e.Details.Nearest, tt.nearest)
		}
	}
	for _, arguments := range []string{`{}`, `{"tool_id":7,"args":{}}`, `{"tool_id":"` + id + `","args":{"path":"a"},"dry":true}`} {
		if e := calltest.Failure(t, h.Tool(t, ToolExecute, arguments)); e.Error != "ARGS_INVALID" || e.Details.Example == nil {
			t.Errorf("%s: %+v", arguments, e)
		}
	}
	if calls := h.Called(); len(calls) != 0 {
		t.Errorf("reached an upstream: %q", calls)
	}
}

func TestExecuteAfterRefresh(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.ID(t, "files", "drop")
	h.Add("files", calltest.Echo, `{"name":"renamed","description":"d"}`)
	if e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{}}`)); e.Error != "HYDRATE_FAILED" {
		t.Errorf("%+v", e)
	}
}

// timeout is a net.Error of that kind.
type timeout struct{}

func (timeout) Error() string   { return "i/o timeout on 10.1.2.3" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestExecuteClassifiesFailures(t *testing.T) {
	answered := func(code int, message, data string) error {
		return &jsonrpc.Error{Code: code, Message: message, Data: json.RawMessage(data)}
	}
	for _, tt := range []struct {
		name string
		err  error
		code result.Code
	}{
		{"weir: unavailable", mcp.Errorf(mcp.KindUpstreamUnavailable, `server "x" ended`), result.UpstreamUnavailable},
		{"weir: timeout", mcp.Errorf(mcp.KindUpstreamTimeout, "x"), result.UpstreamTimeout},
		{"weir: session", mcp.Errorf(mcp.KindSessionNotFound, "x"), result.UpstreamUnavailable},
		{"weir: unauthorized", mcp.Errorf(mcp.KindUnauthorized, "x"), result.AuthFailed},
		{"weir: forbidden", mcp.Errorf(mcp.KindPermissionDenied, "x"), result.PermissionDenied},
		{"weir: limited", fmt.Errorf("wrapped: %w", mcp.Errorf(mcp.KindRateLimited, "x")), result.RateLimited},
		{"deadline", context.DeadlineExceeded, result.UpstreamTimeout},
		{"network timeout", &net.OpError{Op: "read", Err: timeout{}}, result.UpstreamTimeout},
		{"closed", fmt.Errorf("reading: %w", io.EOF), result.UpstreamUnavailable},
		{"anything without an answer", errors.New("dial tcp 10.1.2.3:80: no route"), result.UpstreamUnavailable},
		{"answered", answered(-32603, "boom", ""), result.UpstreamError},
		{"answered invalid params", answered(-32602, "Unknown tool", ""), result.UpstreamError},
		{"answered: another weir", answered(-32003, "x", `{"kind":"upstream_timeout"}`), result.UpstreamTimeout},
		{"answered: another weir about a message", answered(-32602, "x", `{"kind":"invalid_params"}`), result.UpstreamError},
		{"answered: status", answered(-32000, "x", `{"status":403}`), result.PermissionDenied},
		{"answered: a status for a code", answered(401, "x", ""), result.AuthFailed},
		{"answered: a code that is no status", answered(7, "x", ""), result.UpstreamError},
		{"weir: refused by HTTP 400", mcp.Errorf(mcp.KindInvalidRequest, `upstream "x" does not take this tools/call`), result.UpstreamError},
		{"weir: an argument that fits no header", mcp.Errorf(mcp.KindInvalidParams, "x"), result.ArgsInvalid},
		{"answered: rate", answered(-32000, "Rate limit exceeded", ""), result.RateLimited},
		{"answered: auth", answered(-32000, "Invalid API key provided", ""), result.AuthFailed},
		{"answered: forbidden", answered(-32000, "403 Forbidden", ""), result.PermissionDenied},
		{"answered: timeout", answered(-32001, "Request timed out", ""), result.UpstreamTimeout},
		{"answered: down", answered(-32000, "connect ECONNREFUSED 127.0.0.1:1", ""), result.UpstreamUnavailable},
		{"answered: a number that only looks like a status", answered(-32000, "row 4033 is bad", ""), result.UpstreamError},
	} {
		h := newHarness(t, Options{Redactor: result.NewRedactor(nil)})
		h.Add("x", calltest.Fail(tt.err), `{"name":"t","description":"d"}`)
		e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`))
		if e.Error != string(tt.code) || *e.Retryable != tt.code.Retryable() {
			t.Errorf("%s: %+v", tt.name, e)
		}
		if strings.Contains(e.Message, "10.1.2.3") {
			t.Errorf("%s tells an address: %s", tt.name, e.Message)
		}
	}
}

func TestExecuteUpstreamDown(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("gone", nil, `{"name":"t","description":"d"}`)
	e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "gone", "t")+`","args":{}}`))
	if e.Error != "UPSTREAM_UNAVAILABLE" || !*e.Retryable || e.Message != `server "gone" is down` {
		t.Errorf("%+v", e)
	}
}

func TestExecuteRedactsMessages(t *testing.T) {
	h := newHarness(t, Options{Redactor: result.NewRedactor([]string{"s3cr3t-value"})})
	h.Add("x", calltest.Fail(&jsonrpc.Error{Code: -1, Message: "no\nwith s3cr3t-value " + strings.Repeat("z", 1000)}), `{"name":"t","description":"d"}`)
	e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`))
	if strings.Contains(e.Message, "s3cr3t") || !strings.HasPrefix(e.Message, `server "x" answered with error -1: no with [redacted] zzz`) || len([]rune(e.Message)) > 300 {
		t.Errorf("%s", e.Message)
	}
}

func TestExecuteCancelled(t *testing.T) {
	h := newHarness(t, Options{})
	started := make(chan struct{})
	h.Add("x", func(ctx context.Context, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}, `{"name":"t","description":"d"}`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	params := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "x", "t") + `","args":{}}}`)
	_, err := h.g.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Params: params, Session: h.Session, Peer: mcp.NoPeer})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestExecuteToolErrorsPass(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("x", calltest.Say(`{"content":[{"type":"text","text":"no such file"}],"isError":true}`), `{"name":"t","description":"d"}`)
	s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	if !s.IsError || s.Content[0].Text != "no such file" || s.Env.Status != "error" {
		t.Errorf("%+v", s)
	}
}

func TestExecuteMalformedResult(t *testing.T) {
	for _, result := range []string{`"text"`, `null`, `{"content":1}`, ``} {
		h := newHarness(t, Options{})
		h.Add("x", calltest.Say(result), `{"name":"t","description":"d"}`)
		if e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)); e.Error != "UPSTREAM_ERROR" {
			t.Errorf("%s: %+v", result, e)
		}
	}
}

func TestBackChannel(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("x", func(ctx context.Context, _ json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
		answer, err := back.Serve(ctx, &mcp.Request{ID: "9", Method: "sampling/createMessage", Params: json.RawMessage(`{"n":1}`), Session: mcp.Caller(ctx)})
		if err != nil {
			return nil, err
		}
		return json.RawMessage(calltest.Text(string(answer))), nil
	}, `{"name":"t","description":"d"}`)
	params := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "x", "t") + `","args":{}}}`)
	out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Params: params, Session: h.Session, Peer: asked{}})
	if err != nil || !strings.Contains(string(out), `sampled sampling/createMessage {\"n\":1,\"systemPrompt\":\"Server x asks:\"}`) {
		t.Errorf("%s, %v", out, err)
	}
}

// asked is an agent that answers what it is asked.
type asked struct{}

func (asked) Call(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage("sampled " + method + " " + string(params)), nil
}
func (asked) Notify(context.Context, string, json.RawMessage) error { return nil }

// TestOverTheWire has an agent and the gateway talk over a pipe, and checks
// that progress comes before the response.
func TestOverTheWire(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("x", func(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
		token := rawjson.GetPath(params, "_meta", "progressToken")
		for i := range 3 {
			note := json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, i))
			if _, err := back.Serve(ctx, &mcp.Request{Method: "notifications/progress", Params: note, Session: mcp.Caller(ctx)}); err != nil {
				return nil, err
			}
		}
		return json.RawMessage(calltest.Text("done")), nil
	}, `{"name":"t","description":"d"}`)

	a, b := mcp.Pipe()
	server := mcp.NewConn(a, mcp.ConnOptions{Session: mcp.NewSession("", "ann"), Handler: &mcp.Lifecycle{
		ServerInfo: json.RawMessage(`{"name":"weir","version":"0"}`), Capabilities: func(*mcp.Request) json.RawMessage { return h.g.Capabilities(t.Context()) }, Instructions: h.g.Instructions(t.Context()), Next: h.g}})
	defer server.Close()
	agent := mcp.NewConn(b, mcp.ConnOptions{Client: true})
	defer agent.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	hello, err := agent.Call(ctx, "initialize", json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}`), nil)
	if err != nil || !strings.Contains(string(hello), `"tools":{"listChanged":true}`) || !strings.Contains(string(hello), "tool_browse") {
		t.Fatalf("%s, %v", hello, err)
	}
	var progress []string
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		progress = append(progress, string(rawjson.Get(r.Params, "progressToken"))+string(rawjson.Get(r.Params, "progress")))
		return nil, nil
	})
	out, err := agent.Call(ctx, "tools/call", json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}},"_meta":{"progressToken":"p"}}`), back)
	if err != nil || !strings.Contains(string(out), `"text":"done"`) {
		t.Errorf("%s, %v", out, err)
	}
	if got := strings.Join(progress, " "); got != `"p"0 "p"1 "p"2` {
		t.Errorf("progress %s", got)
	}
}

func TestExecuteRedactsResultsOnRequest(t *testing.T) {
	for _, on := range []bool{false, true} {
		h := newHarness(t, Options{Redactor: result.NewRedactor([]string{"s3cr3t-value"}), RedactResults: on})
		h.Add("x", calltest.Say(calltest.Text("the key is s3cr3t-value")), `{"name":"t","description":"d"}`)
		s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
		want := "the key is s3cr3t-value"
		if on {
			want = "the key is [redacted]"
		}
		doc := h.AsJSON(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
		if s.Content[0].Text != want || doc.Env.Summary != "the key is [redacted]" {
			t.Errorf("%v: %+v, %+v", on, s, doc)
		}
	}
}

// absentFleet has a server that was never listed.
type absentFleet struct{ fleet }

func (absentFleet) Missing() []Missing {
	return []Missing{
		{"web-search", "gone", "exit status 1"},
		{"same", "same", `upstream "same": exit status 1`},
		{"ended", "ended", `upstream "ended" ended (exit status 1)`},
	}
}

// An id of a server that has not come up is not told as unknown: ids survive a
// restart, and the server may be a moment away.
func TestExecuteOfAServerThatIsNotUp(t *testing.T) {
	h := newHarness(t, Options{})
	h.change(func(o *Options) { o.Upstreams = absentFleet{fleet{h.Fleet}} })
	for id, want := range map[string]string{ // each server is named once
		"gone:search#00000000":  `server \"web-search\", which has the tools of \"gone\", has not come up yet: exit status 1"`,
		"ended:search#00000000": `server \"ended\" has not come up yet: it ended (exit status 1)"`,
		"same:search#00000000":  `"error":"UPSTREAM_UNAVAILABLE","message":"server \"same\" has not come up yet: exit status 1"`,
		"other:search#00000000": `"HYDRATE_FAILED"`,
		"gone":                  `"HYDRATE_FAILED"`,
	} {
		r := h.Tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{}}`)
		if text := r.Content[0].Text; !r.IsError || !strings.Contains(text, want) {
			t.Errorf("%s: %s", id, text)
		}
	}
}

// TestExecuteRaw: a program that asks for the raw result gets every byte of it, and can tell the
// gateway's own errors from those of tools.
func TestExecuteRaw(t *testing.T) {
	for _, mode := range []Mode{ModeGateway, ModeProxy} {
		big := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 5000) + `"},{"type":"image","data":"AAAA","mimeType":"image/png"}],"structuredContent":{"a":12345678901234567890},"_meta":{"m":1}}`
		h := newHarness(t, Options{Mode: mode})
		h.Add("x", calltest.Say(big), `{"name":"t","description":"d"}`)
		h.Add("y", calltest.Say(`{"content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"weir/error":true}}`), `{"name":"t","description":"d"}`)
		call := func(id string) string {
			out, err := h.Ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{}},"_meta":{"weir/format":"raw"}}`)
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if got := call(h.ID(t, "x", "t")); got != big {
			t.Errorf("%.300s", got)
		}
		if got := call(h.ID(t, "y", "t")); strings.Contains(got, result.MetaError) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("a tool's error: %s", got)
		}
		if got := call("x:nothing"); !strings.Contains(got, `"_meta":{"`+result.MetaError+`":true},"isError":true`) {
			t.Errorf("the gateway's error: %s", got)
		}
	}
}
