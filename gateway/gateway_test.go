package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/artifact"
	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/jsonrpc"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
	"github.com/weir-mcp/weir/token"
)

// fleet is a few upstreams in memory.
type fleet struct {
	mu       sync.Mutex // guards below
	snapshot *Snapshot
	peers    map[string]peerFunc
	calls    []string // "upstream params"
}

type peerFunc func(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error)

type fleetPeer struct {
	f    *fleet
	name string
}

func (p fleetPeer) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	p.f.mu.Lock()
	p.f.calls = append(p.f.calls, p.name+" "+string(params))
	call := p.f.peers[p.name]
	p.f.mu.Unlock()
	if method != "tools/call" {
		return nil, mcp.MethodNotFound(method)
	}
	return call(ctx, params, back)
}

func (p fleetPeer) Notify(context.Context, string, json.RawMessage) error { return nil }

func (f *fleet) Peer(_ context.Context, upstream string) (mcp.Peer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.peers[upstream] == nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "server %q is down", upstream)
	}
	return fleetPeer{f, upstream}, nil
}

func (f *fleet) Snapshot() *Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

func (f *fleet) add(upstream string, peer peerFunc, tools ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := catalog.Listing{Upstream: upstream, Namespace: upstream}
	for _, tool := range tools {
		l.Tools = append(l.Tools, json.RawMessage(tool))
	}
	f.snapshot, _ = f.snapshot.With(l)
	if f.peers == nil {
		f.peers = map[string]peerFunc{}
	}
	if peer != nil {
		f.peers[upstream] = peer
	}
}

func (f *fleet) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

const readTool = `{"name":"read_file","title":"Read","description":"Read a file from disk.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]},"annotations":{"readOnlyHint":true}}`

// echo answers with the arguments as text.
func echo(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(textResult(string(rawjson.Get(params, "arguments")))), nil
}

func say(result string) peerFunc {
	return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	}
}

func fail(err error) peerFunc {
	return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) { return nil, err }
}

type harness struct {
	*fleet
	g       *Gateway
	session *mcp.Session
}

func newHarness(t testing.TB, opts Options) *harness {
	t.Helper()
	store := artifact.NewMemory(artifact.Options{})
	t.Cleanup(func() { store.Close() })
	f := &fleet{snapshot: NewSnapshot(catalog.Limits{})}
	opts.Upstreams, opts.Artifacts = f, store
	h := &harness{fleet: f, session: mcp.NewSession("s", "ann")}
	h.add("files", echo, readTool, `{"name":"drop","description":"Delete a file.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`)
	h.add("web", echo, `{"name":"search","description":"Search the web for pages.","inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}}`)
	h.g = New(opts)
	return h
}

// id returns the tool_id of a raw name.
func (h *harness) id(t testing.TB, upstream, name string) string {
	t.Helper()
	for _, e := range h.Snapshot().Catalog.Of(upstream) {
		if e.RawName == name {
			return e.ID
		}
	}
	t.Fatalf("no tool %s of %s", name, upstream)
	return ""
}

func (h *harness) ask(t testing.TB, method, params string) (json.RawMessage, error) {
	t.Helper()
	return h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: mcp.V20251125, Session: h.session, Peer: mcp.NoPeer})
}

func (h *harness) tool(t testing.TB, name, arguments string) shaped {
	t.Helper()
	return h.raw(t, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

func (h *harness) raw(t testing.TB, params string) shaped {
	t.Helper()
	out, err := h.ask(t, "tools/call", params)
	if err != nil {
		t.Fatalf("%s: %v", params, err)
	}
	var s shaped
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if raw := s.Meta[MetaEnvelope]; raw != nil {
		if err := json.Unmarshal(raw, &s.env); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

type wireError struct {
	Error, Message, Path string
	Retryable            *bool
	Details              struct {
		ToolID       string `json:"tool_id"`
		Schema       json.RawMessage
		SchemaHandle string `json:"schema_handle"`
		Problems     []catalog.Problem
		Nearest      []string
	}
}

// failure is the error of a result that must be one.
func failure(t testing.TB, s shaped) wireError {
	t.Helper()
	var e wireError
	if !s.IsError || len(s.Content) != 1 {
		t.Fatalf("no error: %+v", s)
	}
	if err := json.Unmarshal([]byte(s.Content[0].Text), &e); err != nil || e.Retryable == nil {
		t.Fatalf("%v in %s", err, s.Content[0].Text)
	}
	return e
}

func TestListTools(t *testing.T) {
	list := func(opts Options) []string {
		h := newHarness(t, opts)
		out, err := h.ask(t, "tools/list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		var l struct {
			Tools []struct {
				Name, Description string
				InputSchema       map[string]any
			}
		}
		if err := json.Unmarshal(out, &l); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range l.Tools {
			if tool.Description == "" || tool.InputSchema["type"] != "object" {
				t.Errorf("%+v", tool)
			}
			names = append(names, tool.Name)
		}
		return names
	}
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{}, "tool_browse tool_execute tool_view"},
		{Options{ExposeHydrate: true}, "tool_browse tool_execute tool_view tool_hydrate"},
	} {
		if got := strings.Join(list(tt.opts), " "); got != tt.want {
			t.Errorf("%+v lists %s", tt.opts, got)
		}
	}
}

func TestDefinitionsFitTheirBudget(t *testing.T) {
	h := newHarness(t, Options{})
	three := string(rawjson.Get(h.g.tools, "tools"))
	n := token.Count(three)
	if n > 900 {
		t.Errorf("the three definitions have %d tokens, at most 900 are allowed", n)
	}
	t.Logf("%d tokens", n)
	var compacted []byte
	if compacted = compact(nil, []byte(three)); string(compacted) != three {
		t.Error("the definitions are not compact JSON")
	}
}

func TestListToolsInTheModernEra(t *testing.T) {
	for mode, want := range map[Mode]string{ModeGateway: `{"ttlMs":300000,"cacheScope":"public","tools":[`, ModeProxy: `{"ttlMs":0,"cacheScope":"private","tools":[`} {
		h := newHarness(t, Options{Mode: mode})
		out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/list", Version: mcp.V20260728, Session: h.session, Peer: mcp.NoPeer})
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%.100s, %v", out, err)
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ method, params, want string }{
		{"tools/list", `{"cursor":"x"}`, "unknown cursor"},
		{"tools/call", `{}`, "name must be a string"},
		{"tools/call", `{"name":"a","name":"b"}`, "duplicate"},
		{"tools/call", `{"name":"nope"}`, `unknown tool "nope": the tools here are tool_browse, tool_execute, tool_view`},
		{"tools/call", `{"name":"` + h.id(t, "files", "drop") + `"}`, `call tool_execute with {"tool_id":"` + h.id(t, "files", "drop") + `","args":{…}}`},
		{"tools/call", `{"name":"tool_hydrate"}`, "unknown tool"},
		{"tools/call", `{"name":"tool_browse","_meta":{"weir/format":"xml"}}`, "weir/format"},
	} {
		_, err := h.ask(t, tt.method, tt.params)
		if w := mcp.WireError(err, mcp.V20251125); err == nil || w.Code != jsonrpc.CodeInvalidParams || !strings.Contains(w.Message, tt.want) {
			t.Errorf("%s %s: %v", tt.method, tt.params, err)
		}
	}
	if _, err := h.ask(t, "resources/list", `{}`); mcp.WireError(err, "").Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("resources/list: %v", err)
	}
	if out, err := h.g.Serve(t.Context(), &mcp.Request{Method: "notifications/roots/list_changed", Session: h.session, Peer: mcp.NoPeer}); out != nil || err != nil {
		t.Errorf("a notification: %s, %v", out, err)
	}
}

func TestBrowse(t *testing.T) {
	h := newHarness(t, Options{})
	read, drop := h.id(t, "files", "read_file"), h.id(t, "files", "drop")
	for _, tt := range []struct{ arguments, want string }{
		{`{"query":"read a file"}`, read + " (tool) — Read a file from disk. [read-only]"},
		{`{"query":"delete a file","top_k":1}`, drop + " (tool) — Delete a file. [destructive] side-effects"},
		{`{"path":"/files"}`, drop + " (tool) — Delete a file. [destructive] side-effects\n" + read + " (tool) — Read a file from disk. [read-only]"},
		{`{"path":"/files","top_k":1}`, drop + " (tool) — Delete a file. [destructive] side-effects"},
		{`{"path":"/files/read_file"}`, read + " (tool) — Read a file from disk. [read-only]"},
		{`{"query":null,"path":"/files/read_file"}`, read + " (tool) — Read a file from disk. [read-only]"},
		{`{"query":"zzzzqqqq"}`, `No tool matches. Try other words, or path "/" to see what there is.`},
	} {
		s := h.tool(t, ToolBrowse, tt.arguments)
		got := s.Content[0].Text
		if strings.Contains(tt.arguments, `"query"`) && !strings.Contains(tt.arguments, "top_k") {
			got, _, _ = strings.Cut(got, "\n")
		}
		if s.IsError || got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.arguments, got, tt.want)
		}
	}
	root := h.tool(t, ToolBrowse, `{"path":"/"}`).Content[0].Text
	if lines := strings.Split(root, "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "/files (internal)") || !strings.HasPrefix(lines[1], "/web ") {
		t.Errorf("/ is %q", root)
	}
}

func TestBrowseJSON(t *testing.T) {
	h := newHarness(t, Options{Format: FormatJSON})
	s := h.tool(t, ToolBrowse, `{"query":"file"}`)
	var cards []struct {
		ID    string
		Score *float64
	}
	if err := json.Unmarshal([]byte(s.Content[0].Text), &cards); err != nil || len(cards) < 2 {
		t.Fatalf("%v in %s", err, s.Content[0].Text)
	}
	for i, c := range cards {
		if c.Score == nil || i > 0 && (*c.Score > *cards[i-1].Score || *c.Score == *cards[i-1].Score && c.ID < cards[i-1].ID) {
			t.Errorf("card %d is out of order: %s", i, s.Content[0].Text)
		}
	}
	if string(s.StructuredContent) != `{"cards":`+s.Content[0].Text+`}` {
		t.Errorf("structuredContent %s", s.StructuredContent)
	}
	if s = h.raw(t, `{"name":"tool_browse","arguments":{"path":"/web"},"_meta":{"weir/format":"text"}}`); s.StructuredContent != nil || strings.HasPrefix(s.Content[0].Text, "[") {
		t.Errorf("%+v", s)
	}
	if s = h.tool(t, ToolBrowse, `{"path":"/web"}`); strings.Contains(s.Content[0].Text, "score") {
		t.Errorf("a path has scores: %s", s.Content[0].Text)
	}
	if s = h.tool(t, ToolBrowse, `{"query":"zzzzqqqq"}`); s.Content[0].Text != "[]" {
		t.Errorf("nothing is %s", s.Content[0].Text)
	}
}

func TestBrowseErrors(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ arguments, code, message, path string }{
		{`{}`, "ARGS_INVALID", "tool_browse: pass query or path", ""},
		{`null`, "ARGS_INVALID", "tool_browse: pass query or path", ""},
		{`[]`, "ARGS_INVALID", "tool_browse: arguments must be an object, not an array", ""},
		{`{"query":"a","path":"/"}`, "ARGS_INVALID", "tool_browse: pass either query or path, not both", ""},
		{`{"query":" \n"}`, "ARGS_INVALID", "tool_browse: query is empty", ""},
		{`{"query":1}`, "ARGS_INVALID", "tool_browse: query must be a string, not 1", ""},
		{`{"path":{}}`, "ARGS_INVALID", "tool_browse: path must be a string, not an object", ""},
		{`{"query":"a","top_k":0}`, "ARGS_INVALID", "tool_browse: top_k must be a whole number from 1 to 50, not 0", ""},
		{`{"query":"a","top_k":51}`, "ARGS_INVALID", "tool_browse: top_k must be", ""},
		{`{"query":"a","top_k":"5"}`, "ARGS_INVALID", "tool_browse: top_k must be", ""},
		{`{"query":"a","k":5}`, "ARGS_INVALID", `tool_browse: unknown argument "k"; known are query, path, top_k`, ""},
		{`{"query":"a","query":"b"}`, "ARGS_INVALID", "tool_browse: query stands twice", ""},
		{`{"path":"files"}`, "PATH_INVALID", "", "files"},
		{`{"path":"/files/"}`, "PATH_INVALID", "", "/files/"},
		{`{"path":"//files"}`, "PATH_INVALID", "", "//files"},
		{`{"path":"/Files"}`, "PATH_INVALID", "", "/Files"},
		{`{"path":"/nowhere"}`, "PATH_NOT_FOUND", "", "/nowhere"},
	} {
		e := failure(t, h.tool(t, ToolBrowse, tt.arguments))
		if e.Error != tt.code || !strings.HasPrefix(e.Message, tt.message) || e.Path != tt.path || *e.Retryable {
			t.Errorf("%s: %+v", tt.arguments, e)
		}
		if tt.code == "ARGS_INVALID" && !strings.Contains(string(e.Details.Schema), `"top_k"`) {
			t.Errorf("%s: no schema in the details", tt.arguments)
		}
	}
}

func TestTenCardsFitTheirBudget(t *testing.T) {
	h := newHarness(t, Options{})
	var tools []string
	for i := range 40 {
		tools = append(tools, fmt.Sprintf(`{"name":"convert_currency_with_a_rather_long_name_%d","description":"Convert an amount of money from one currency to another, %s. Use it for money.","inputSchema":{"type":"object"}}`,
			i, strings.Repeat("at the rate of a given day and place ", i)))
	}
	h.add("money", echo, tools...)
	text := h.tool(t, ToolBrowse, `{"query":"convert currency money"}`).Content[0].Text
	if n := strings.Count(text, "\n") + 1; n != 10 {
		t.Errorf("%d cards, want 10", n)
	}
	if n := token.Count(text); n > 832 {
		t.Errorf("%d tokens, at most 832 are allowed", n)
	}
}

func TestExecutePasses(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.id(t, "files", "read_file")
	s := h.raw(t, `{"_meta":{"progressToken":12345678901234567890,"weir/format":"text"},"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"path":"é\u00e9", "limit":12345678901234567890}},"requestState":"x"}`)
	if s.IsError || s.Content[0].Text != `{"path":"é\u00e9", "limit":12345678901234567890}` {
		t.Errorf("%+v", s)
	}
	if got := fmt.Sprint(s.env.Provenance); got != "map[protocol:mcp tool:read_file tool_id:"+id+"]" || s.env.Status != "ok" || s.env.Stats.Strategy != "passthrough" {
		t.Errorf("envelope %+v", s.env)
	}
	if n := s.env.Stats.OriginalTokens; n == nil || *n != token.Count(s.Content[0].Text) {
		t.Errorf("tokens %v", n)
	}
	want := []string{`files {"name":"read_file","arguments":{"path":"é\u00e9", "limit":12345678901234567890},"_meta":{"progressToken":12345678901234567890},"requestState":"x"}`}
	if got := h.called(); !slices.Equal(got, want) {
		t.Errorf("the upstream got\n%s\nwant\n%s", got, want)
	}
}

func TestExecuteWithoutArguments(t *testing.T) {
	h := newHarness(t, Options{})
	for _, arguments := range []string{`{"tool_id":"` + h.id(t, "web", "search") + `"}`, `{"tool_id":"` + h.id(t, "web", "search") + `","args":null}`} {
		if s := h.tool(t, ToolExecute, arguments); s.IsError || s.Content[0].Text != "{}" {
			t.Errorf("%s: %+v", arguments, s)
		}
	}
}

func TestExecuteRefusesArguments(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.id(t, "files", "read_file")
	for _, tt := range []struct{ args, path string }{
		{`{}`, "/path"}, {`{"path":1}`, "/path"}, {`{"path":"a","limit":1.5}`, "/limit"}, {`[]`, ""}, {`"{\"path\":\"a\"}"`, ""}, {`7`, ""},
	} {
		e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":`+tt.args+`}`))
		if e.Error != "ARGS_INVALID" || *e.Retryable || e.Details.ToolID != id || len(e.Details.Problems) == 0 || e.Details.Problems[0].Path != tt.path {
			t.Errorf("%s: %+v", tt.args, e)
		}
		if !strings.Contains(string(e.Details.Schema), `"required":["path"]`) {
			t.Errorf("%s: the details hold no schema: %s", tt.args, e.Details.Schema)
		}
	}
	if calls := h.called(); len(calls) != 0 {
		t.Errorf("reached the upstream: %q", calls)
	}
}

func TestExecuteLargeSchemaIsAnArtifact(t *testing.T) {
	h := newHarness(t, Options{})
	schema := `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 30_000) + `"}}}`
	h.add("big", echo, `{"name":"t","description":"d","inputSchema":`+schema+`}`)
	e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "big", "t")+`","args":{"a":1}}`))
	if e.Error != "ARGS_INVALID" || e.Details.Schema != nil || e.Details.SchemaHandle == "" {
		t.Fatalf("%+v", e)
	}
	s := h.tool(t, ToolView, `{"handle":"`+e.Details.SchemaHandle+`","selector":{"type":"json_path","path":"$.properties.a.type"}}`)
	if s.IsError || s.Content[0].Text != `"string"` {
		t.Errorf("%+v", s)
	}
}

func TestExecuteBrokenSchema(t *testing.T) {
	h := newHarness(t, Options{})
	h.add("bad", echo, `{"name":"t","description":"d","inputSchema":{"type":"nonsense"}}`)
	e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "bad", "t")+`","args":{}}`))
	if e.Error != "SCHEMA_INVALID" || *e.Retryable || len(h.called()) != 0 {
		t.Errorf("%+v", e)
	}
}

func TestExecuteExactIDsOnly(t *testing.T) {
	h := newHarness(t, Options{})
	h.add("bank", echo, `{"name":"refund","description":"d","_meta":{"version":"10"}}`)
	id := h.id(t, "files", "read_file")
	for _, tt := range []struct{ id, nearest string }{
		{"bank:refund@1", "bank:refund@10"},
		{"bank:refund", "bank:refund@10"},
		{strings.ToUpper(id), ""},
		{"read_file", id},
		{"files:raed_file#00000000", id},
		{"", ""},
		{"resource::files:x#00000000", ""},
	} {
		e := failure(t, h.tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{}}`, tt.id)))
		if e.Error != "HYDRATE_FAILED" || *e.Retryable {
			t.Errorf("%s: %+v", tt.id, e)
		}
		if tt.nearest != "" && !slices.Contains(e.Details.Nearest, tt.nearest) {
			t.Errorf("%s: nearest %q, want %s", tt.id, e.Details.Nearest, tt.nearest)
		}
	}
	for _, arguments := range []string{`{}`, `{"tool_id":7,"args":{}}`, `{"tool_id":"` + id + `","args":{"path":"a"},"dry_run":true}`} {
		if e := failure(t, h.tool(t, ToolExecute, arguments)); e.Error != "ARGS_INVALID" || e.Details.Schema == nil {
			t.Errorf("%s: %+v", arguments, e)
		}
	}
	if calls := h.called(); len(calls) != 0 {
		t.Errorf("reached an upstream: %q", calls)
	}
}

func TestExecuteAfterRefresh(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.id(t, "files", "drop")
	h.add("files", echo, `{"name":"renamed","description":"d"}`)
	if e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{}}`)); e.Error != "HYDRATE_FAILED" {
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
		code Code
	}{
		{"weir: unavailable", mcp.Errorf(mcp.KindUpstreamUnavailable, `server "x" ended`), UpstreamUnavailable},
		{"weir: timeout", mcp.Errorf(mcp.KindUpstreamTimeout, "x"), UpstreamTimeout},
		{"weir: session", mcp.Errorf(mcp.KindSessionNotFound, "x"), UpstreamUnavailable},
		{"weir: unauthorized", mcp.Errorf(mcp.KindUnauthorized, "x"), AuthFailed},
		{"weir: forbidden", mcp.Errorf(mcp.KindPermissionDenied, "x"), PermissionDenied},
		{"weir: limited", fmt.Errorf("wrapped: %w", mcp.Errorf(mcp.KindRateLimited, "x")), RateLimited},
		{"deadline", context.DeadlineExceeded, UpstreamTimeout},
		{"network timeout", &net.OpError{Op: "read", Err: timeout{}}, UpstreamTimeout},
		{"closed", fmt.Errorf("reading: %w", io.EOF), UpstreamUnavailable},
		{"anything without an answer", errors.New("dial tcp 10.1.2.3:80: no route"), UpstreamUnavailable},
		{"answered", answered(-32603, "boom", ""), UpstreamError},
		{"answered invalid params", answered(-32602, "Unknown tool", ""), UpstreamError},
		{"answered: another weir", answered(-32003, "x", `{"kind":"upstream_timeout"}`), UpstreamTimeout},
		{"answered: another weir about a message", answered(-32602, "x", `{"kind":"invalid_params"}`), UpstreamError},
		{"answered: status", answered(-32000, "x", `{"status":403}`), PermissionDenied},
		{"answered: rate", answered(-32000, "Rate limit exceeded", ""), RateLimited},
		{"answered: auth", answered(-32000, "Invalid API key provided", ""), AuthFailed},
		{"answered: forbidden", answered(-32000, "403 Forbidden", ""), PermissionDenied},
		{"answered: timeout", answered(-32001, "Request timed out", ""), UpstreamTimeout},
		{"answered: down", answered(-32000, "connect ECONNREFUSED 127.0.0.1:1", ""), UpstreamUnavailable},
		{"answered: a number that only looks like a status", answered(-32000, "row 4033 is bad", ""), UpstreamError},
	} {
		h := newHarness(t, Options{Redactor: NewRedactor(nil)})
		h.add("x", fail(tt.err), `{"name":"t","description":"d"}`)
		e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "x", "t")+`","args":{}}`))
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
	h.add("gone", nil, `{"name":"t","description":"d"}`)
	e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "gone", "t")+`","args":{}}`))
	if e.Error != "UPSTREAM_UNAVAILABLE" || !*e.Retryable || e.Message != `server "gone" is down` {
		t.Errorf("%+v", e)
	}
}

func TestExecuteRedactsMessages(t *testing.T) {
	h := newHarness(t, Options{Redactor: NewRedactor([]string{"s3cr3t-value"})})
	h.add("x", fail(&jsonrpc.Error{Code: -1, Message: "no\nwith s3cr3t-value " + strings.Repeat("z", 1000)}), `{"name":"t","description":"d"}`)
	e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "x", "t")+`","args":{}}`))
	if strings.Contains(e.Message, "s3cr3t") || !strings.HasPrefix(e.Message, `server "x" answered with error -1: no with [redacted] zzz`) || len([]rune(e.Message)) > 300 {
		t.Errorf("%s", e.Message)
	}
}

func TestExecuteCancelled(t *testing.T) {
	h := newHarness(t, Options{})
	started := make(chan struct{})
	h.add("x", func(ctx context.Context, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}, `{"name":"t","description":"d"}`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	params := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.id(t, "x", "t") + `","args":{}}}`)
	_, err := h.g.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Params: params, Session: h.session, Peer: mcp.NoPeer})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestExecuteToolErrorsPass(t *testing.T) {
	h := newHarness(t, Options{})
	h.add("x", say(`{"content":[{"type":"text","text":"no such file"}],"isError":true}`), `{"name":"t","description":"d"}`)
	s := h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "x", "t")+`","args":{}}`)
	if !s.IsError || s.Content[0].Text != "no such file" || s.env.Status != "error" {
		t.Errorf("%+v", s)
	}
}

func TestExecuteMalformedResult(t *testing.T) {
	for _, result := range []string{`"text"`, `null`, `{"content":1}`, ``} {
		h := newHarness(t, Options{})
		h.add("x", say(result), `{"name":"t","description":"d"}`)
		if e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "x", "t")+`","args":{}}`)); e.Error != "UPSTREAM_ERROR" {
			t.Errorf("%s: %+v", result, e)
		}
	}
}

func TestExecuteThenView(t *testing.T) {
	h := newHarness(t, Options{})
	text := numbered("line # of a long text.", 1000, "\n")
	h.add("x", say(textResult(text)), `{"name":"t","description":"d"}`)
	s := h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "x", "t")+`","args":{}}`)
	if len(s.env.Artifacts) != 1 || s.env.Artifacts[0].Label != h.id(t, "x", "t") {
		t.Fatalf("%+v", s.env)
	}
	handle := s.env.Artifacts[0].Handle
	v := h.tool(t, ToolView, `{"handle":"`+handle+`","selector":{"type":"lines","start":998}}`)
	if len(v.Content) != 2 || v.Content[0].Text != "line 998 of a long text.\nline 999 of a long text." || v.Content[1].Text != "[lines 998 to 1000 of 1000]" {
		t.Errorf("%+v", v)
	}
	v = h.raw(t, `{"name":"tool_view","arguments":{"handle":"`+handle+`","selector":{"chars":4}},"_meta":{"weir/format":"json"}}`)
	var doc struct {
		Artifact     artifact.Artifact
		Text, Notice string
		Next         json.RawMessage
	}
	if err := json.Unmarshal(v.StructuredContent, &doc); err != nil || doc.Text != "line" || doc.Artifact.Handle != handle || string(doc.Next) != `{"type":"head","start":4,"chars":4}` {
		t.Errorf("%s, %v", v.StructuredContent, err)
	}
	// The same bytes have the same handle for this principal and none for another.
	again := h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "x", "t")+`","args":{}}`)
	if again.env.Artifacts[0].Handle != handle {
		t.Errorf("handle %s, then %s", handle, again.env.Artifacts[0].Handle)
	}
	h.session = mcp.NewSession("s2", "bob")
	if e := failure(t, h.tool(t, ToolView, `{"handle":"`+handle+`","selector":{}}`)); e.Error != "VIEW_FAILED" {
		t.Errorf("%+v", e)
	}
}

func TestViewErrors(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ arguments, code, message string }{
		{`{"handle":"x"}`, "ARGS_INVALID", "tool_view: handle and selector are needed"},
		{`{"selector":{}}`, "ARGS_INVALID", "tool_view: handle and selector are needed"},
		{`{"handle":3,"selector":{}}`, "ARGS_INVALID", "tool_view: handle must be a string, not 3"},
		{`{"handle":"art_nope","selector":{}}`, "VIEW_FAILED", `handle: no artifact has the handle "art_nope" here`},
	} {
		if e := failure(t, h.tool(t, ToolView, tt.arguments)); e.Error != tt.code || !strings.HasPrefix(e.Message, tt.message) || *e.Retryable {
			t.Errorf("%s: %+v", tt.arguments, e)
		}
	}
}

func TestErrorsInJSON(t *testing.T) {
	h := newHarness(t, Options{})
	s := h.raw(t, `{"name":"tool_browse","arguments":{},"_meta":{"weir/format":"json"}}`)
	if failure(t, s).Error != "ARGS_INVALID" || string(s.StructuredContent) != s.Content[0].Text {
		t.Errorf("%+v", s)
	}
}

func TestHydrate(t *testing.T) {
	h := newHarness(t, Options{ExposeHydrate: true})
	id := h.id(t, "files", "read_file")
	s := h.tool(t, ToolHydrate, `{"tool_id":"`+id+`"}`)
	want := `{"tool_id":"` + id + `","name":"read_file","title":"Read","description":"Read a file from disk.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]},"annotations":{"readOnlyHint":true}}`
	if s.IsError || s.Content[0].Text != want {
		t.Errorf("%+v", s)
	}
	if e := failure(t, h.tool(t, ToolHydrate, `{"tool_id":"files:nope"}`)); e.Error != "HYDRATE_FAILED" {
		t.Errorf("%+v", e)
	}
	if e := failure(t, h.tool(t, ToolHydrate, `{}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("%+v", e)
	}
}

func TestDispatchChainOrder(t *testing.T) {
	var order []string
	link := func(name string) Middleware {
		return func(next Dispatcher) Dispatcher {
			return DispatcherFunc(func(ctx context.Context, c *Call) (json.RawMessage, error) {
				order = append(order, name)
				return next.Dispatch(ctx, c)
			})
		}
	}
	h := newHarness(t, Options{Dispatch: []Middleware{link("first"), link("second")}})
	id := h.id(t, "files", "read_file")
	h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{"path":"a"}}`)
	h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{}}`) // stopped by validation before either
	if got := strings.Join(order, " "); got != "first second" {
		t.Errorf("order %s", got)
	}
}

func TestBackChannel(t *testing.T) {
	h := newHarness(t, Options{})
	h.add("x", func(ctx context.Context, _ json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
		answer, err := back.Serve(ctx, &mcp.Request{ID: "9", Method: "sampling/createMessage", Params: json.RawMessage(`{"n":1}`), Session: mcp.Caller(ctx)})
		if err != nil {
			return nil, err
		}
		return json.RawMessage(textResult(string(answer))), nil
	}, `{"name":"t","description":"d"}`)
	params := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.id(t, "x", "t") + `","args":{}}}`)
	out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Params: params, Session: h.session, Peer: asked{}})
	if err != nil || !strings.Contains(string(out), `sampled sampling/createMessage {\"n\":1}`) {
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
	h.add("x", func(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
		token := rawjson.GetPath(params, "_meta", "progressToken")
		for i := range 3 {
			note := json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, i))
			if _, err := back.Serve(ctx, &mcp.Request{Method: "notifications/progress", Params: note, Session: mcp.Caller(ctx)}); err != nil {
				return nil, err
			}
		}
		return json.RawMessage(textResult("done")), nil
	}, `{"name":"t","description":"d"}`)

	a, b := mcp.Pipe()
	server := mcp.NewConn(a, mcp.ConnOptions{Session: mcp.NewSession("", "ann"), Handler: &mcp.Lifecycle{
		ServerInfo: json.RawMessage(`{"name":"weir","version":"0"}`), Capabilities: h.g.Capabilities, Instructions: h.g.Instructions(), Next: h.g}})
	defer server.Close()
	agent := mcp.NewConn(b, mcp.ConnOptions{Client: true})
	defer agent.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	hello, err := agent.Call(ctx, "initialize", json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}`), nil)
	if err != nil || !strings.Contains(string(hello), `"tools":{}`) || !strings.Contains(string(hello), "tool_browse") {
		t.Fatalf("%s, %v", hello, err)
	}
	var progress []string
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		progress = append(progress, string(rawjson.Get(r.Params, "progressToken"))+string(rawjson.Get(r.Params, "progress")))
		return nil, nil
	})
	out, err := agent.Call(ctx, "tools/call", json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"`+h.id(t, "x", "t")+`","args":{}},"_meta":{"progressToken":"p"}}`), back)
	if err != nil || !strings.Contains(string(out), `"text":"done"`) {
		t.Errorf("%s, %v", out, err)
	}
	if got := strings.Join(progress, " "); got != `"p"0 "p"1 "p"2` {
		t.Errorf("progress %s", got)
	}
}

func TestSnapshotFollowsConflicts(t *testing.T) {
	tool := json.RawMessage(`{"name":"search","description":"Search things.","_meta":{"version":"1"}}`)
	s := NewSnapshot(catalog.Limits{})
	s, _ = s.With(catalog.Listing{Upstream: "a", Namespace: "ns", Tools: []json.RawMessage{tool}})
	s, report := s.With(catalog.Listing{Upstream: "b", Namespace: "ns", Tools: []json.RawMessage{tool}, Resources: []json.RawMessage{json.RawMessage(`{"uri":"x:search","name":"search"}`)}})
	if !report.Has(catalog.FoundConflict) || s.Index.Len() != 1 {
		t.Fatalf("%d documents, report %+v", s.Index.Len(), report)
	}
	s = s.Without("a")
	if e, ok := s.Catalog.Lookup("ns:search@1"); !ok || e.Upstream != "b" || s.Index.Len() != 1 || len(s.Index.Search("search", 5)) != 1 {
		t.Errorf("what a hid of b did not come back: %d documents", s.Index.Len())
	}
	if s.Without("nobody") != s {
		t.Error("nothing was taken out and the snapshot changed")
	}
	if s = s.Without("b"); s.Index.Len() != 0 || s.Catalog.Len() != 0 {
		t.Error("something is left")
	}
}
