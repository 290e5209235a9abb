package trace

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// operations remembers what a Tracer tells.
type operations struct {
	mu   sync.Mutex
	list []Operation
}

func (o *operations) add(op Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op.Took = 0
	o.list = append(o.list, op)
}

// traced is a Tracer with a collector.
type traced struct {
	*Tracer
	c   *tracetest.Collector
	ops operations
}

func newTraced(t testing.TB, sample float64) *traced {
	t.Helper()
	x := &traced{c: tracetest.New(t)}
	x.Tracer = New(Options{Version: "v1", Instance: "i1", Observe: x.ops.add})
	if err := x.Configure(Settings{URL: x.c.URL + "/v1/traces", Headers: map[string]string{"x-key": "k1"}, Service: "gate", Sample: sample, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(t.Context()) })
	return x
}

// all ends the Tracer and returns its spans by name.
func (x *traced) all(t testing.TB) map[string]tracetest.Span {
	t.Helper()
	x.Close(context.WithoutCancel(t.Context()))
	out := map[string]tracetest.Span{}
	for _, s := range x.c.Spans() {
		out[s.Kind+" "+s.Name] = s
	}
	return out
}

func request(method, params string) *mcp.Request {
	return &mcp.Request{ID: `"req-1"`, Method: method, Version: mcp.V20251125, Session: mcp.NewSession("the-secret-session", "ann"), Peer: mcp.NoPeer, Params: json.RawMessage(params)}
}

// receiving returns next with an operation for each request.
func receiving(t *Tracer, next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		ctx, op := t.Receive(ctx, "", r)
		result, err := next.Serve(ctx, r)
		op.End(result, err)
		return result, err
	})
}

// through serves a request whose handler asks a server, and returns what the server gets.
func (x *traced) through(t testing.TB, r *mcp.Request, result string, failure error) (sent string) {
	t.Helper()
	to := Server{Name: "files", Address: "files.example.com", Port: 443}
	h := receiving(x.Tracer, mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		call, params := x.Begin(ctx, &to, r.Method, r.Params)
		sent = string(params)
		call.End(json.RawMessage(result), failure)
		return json.RawMessage(result), failure
	}))
	if _, err := h.Serve(t.Context(), r); !errors.Is(err, failure) {
		t.Errorf("%v in place of %v", err, failure)
	}
	return sent
}

// TestSpans: a request and the request to the server are two spans of the trace that the agent is
// in, with the attributes of the conventions.
func TestSpans(t *testing.T) {
	x := newTraced(t, 0) // the agent's decision comes first
	sent := x.through(t, request("tools/call", `{"name":"read","arguments":{"path":"/private/file"},"_meta":{"progressToken":12345678901234567890,"traceparent":"`+someParent+`","tracestate":"v=1"}}`), `{"content":[{"type":"text","text":"private result"}]}`, nil)
	spans := x.all(t)
	server, client := spans["server tools/call read"], spans["client tools/call read"]
	if len(spans) != 2 || server.Trace != someTrace || client.Trace != someTrace || server.Parent != someSpan || client.Parent != server.ID {
		t.Fatalf("%+v", spans)
	}
	if server.Flags != 0x301 || client.Flags != 0x101 || server.State != "v=1" || client.State != "v=1" || server.Failed || client.Failed || server.Service != "gate" {
		t.Errorf("%+v\n%+v", server, client)
	}
	want := `{"name":"read","arguments":{"path":"/private/file"},"_meta":{"progressToken":12345678901234567890,"traceparent":"00-` + someTrace + "-" + client.ID + `-01","tracestate":"v=1"}}`
	if sent != want {
		t.Errorf("the server gets %s", sent)
	}
	if got, want := server.Attributes, map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "mcp.session.id": telemetry.SessionTag("the-secret-session"),
		"mcp.protocol.version": mcp.V20251125, "jsonrpc.request.id": "req-1", "network.transport": "pipe",
	}; !maps.Equal(got, want) {
		t.Errorf("the server span has %v", got)
	}
	if got, want := client.Attributes, map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "weir.server": "files",
		"server.address": "files.example.com", "server.port": "443", "network.transport": "tcp", "network.protocol.name": "http",
	}; !maps.Equal(got, want) {
		t.Errorf("the client span has %v", got)
	}
	for _, body := range x.c.Bodies() {
		if strings.Contains(body, "private") || strings.Contains(body, "secret") {
			t.Errorf("a span tells too much: %s", body)
		}
	}
	if h := x.c.Header(); h.Get("X-Key") != "k1" || h.Get("User-Agent") != "weir/v1" {
		t.Errorf("the headers %v", h)
	}
	if figures := x.Spans(); figures != (telemetry.SpanFigures{Sent: 2}) {
		t.Errorf("%+v", figures)
	}
}

// TestOutcomes: the type of an error is in both spans and both operations.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name, method, result           string
		err                            error
		server, client, status, failed string
	}{
		{"ok", "tools/call", `{"content":[],"isError":false}`, nil, "", "", "", ""},
		{"tool error", "tools/call", `{"content":[],"isError":true}`, nil, toolError, toolError, "", ""},
		{"no tool", "prompts/get", `{"isError":true}`, nil, "", "", "", ""},
		{"answered", "tools/call", ``, &jsonrpc.Error{Code: -32602, Message: "private"}, "-32602", "-32602", "-32602", "-32602"},
		{"own", "tools/call", ``, mcp.Errorf(mcp.KindUpstreamTimeout, "private"), "-32003", "upstream_timeout", "-32003", ""},
		{"cancelled", "tools/call", ``, context.Canceled, "cancelled", "cancelled", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTraced(t, 1)
			x.through(t, request(c.method, `{"name":"n"}`), c.result, c.err)
			spans := x.all(t)
			server, client := spans["server "+c.method+" n"], spans["client "+c.method+" n"]
			if server.Attributes["error.type"] != c.server || client.Attributes["error.type"] != c.client || server.Failed != (c.server != "") || client.Failed != (c.client != "") {
				t.Errorf("%+v\n%+v", server, client)
			}
			if server.Attributes["rpc.response.status_code"] != c.status || client.Attributes["rpc.response.status_code"] != c.failed {
				t.Errorf("the codes: %v, %v", server.Attributes, client.Attributes)
			}
			want := []Operation{{Client: true, Method: c.method, ErrorType: c.client}, {Method: c.method, ErrorType: c.server}}
			if !slices.Equal(x.ops.list, want) {
				t.Errorf("operations %+v", x.ops.list)
			}
		})
	}
}

// TestSampling: the sender's decision comes before the ratio, and params of a trace that is not
// sampled keep their bytes.
func TestSampling(t *testing.T) {
	unsampled := strings.TrimSuffix(someParent, "01") + "00"
	for _, c := range []struct {
		name, meta string
		sample     float64
		spans      int
	}{
		{"all", ``, 1, 2},
		{"none", ``, 0, 0},
		{"sender wants it", `,"_meta":{"traceparent":"` + someParent + `"}`, 0, 2},
		{"sender does not", `,"_meta":{"traceparent":"` + unsampled + `"}`, 1, 0},
		{"malformed", `,"_meta":{"traceparent":"00-x"}`, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTraced(t, c.sample)
			params := `{"name":"read"` + c.meta + `}`
			sent := x.through(t, request("tools/call", params), `{}`, nil)
			if (sent == params) != (c.spans == 0) {
				t.Errorf("the server gets %s", sent)
			}
			if spans := x.all(t); len(spans) != c.spans || len(x.ops.list) != 2 {
				t.Errorf("%d spans, %d operations", len(spans), len(x.ops.list))
			}
		})
	}
	x := newTraced(t, .25)
	for range 2000 {
		x.through(t, request("ping", ``), `{}`, nil)
	}
	x.Close(context.WithoutCancel(t.Context()))
	if n := len(x.c.Spans()) / 2; n < 350 || n > 650 { // beyond six deviations
		t.Errorf("%d of 2000 are sampled at 0.25", n)
	}
}

// TestOff: without an endpoint there are operations, and nothing else.
func TestOff(t *testing.T) {
	x := &traced{}
	x.Tracer = New(Options{Observe: x.ops.add})
	defer x.Close(t.Context())
	params := `{"name":"read","_meta":{"traceparent":"` + someParent + `"}}`
	if sent := x.through(t, request("tools/call", params), `{}`, nil); sent != params || len(x.ops.list) != 2 {
		t.Errorf("%s, %+v", sent, x.ops.list)
	}
	var none *Tracer
	call, sent := none.Begin(t.Context(), &Server{}, "ping", nil)
	call.End(nil, nil)
	if sent != nil {
		t.Errorf("%s", sent)
	}
	next := mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { return nil, nil })
	if _, err := receiving(none, next).Serve(t.Context(), request("ping", "")); err != nil {
		t.Error(err)
	}
}

// TestNotOperations: notifications and subscriptions are no operations.
func TestNotOperations(t *testing.T) {
	x := newTraced(t, 1)
	h := receiving(x.Tracer, mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if ID(ctx) != "" {
			t.Errorf("%s has a span", r.Method)
		}
		return nil, nil
	}))
	notice := request("notifications/roots/list_changed", "")
	notice.ID = ""
	for _, r := range []*mcp.Request{notice, request("subscriptions/listen", "")} {
		if _, err := h.Serve(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	if spans := x.all(t); len(spans)+len(x.ops.list) != 0 {
		t.Errorf("%v, %v", spans, x.ops.list)
	}
}

// TestCodesAreIntegers: the code of a server's error is its integer in the span and the operation,
// and never the text that the server has put there.
func TestCodesAreIntegers(t *testing.T) {
	for raw, want := range map[string]string{"-32602": "-32602", "-3.2602e4": "-32602", `"a secret"`: "0", "[1,2]": "0"} {
		x := newTraced(t, 1)
		f, _ := x.Forward(func() Server { return Server{Name: "files"} }, "tools/call", nil, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
		f.Read([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":` + raw + `,"message":"private"}}`))
		f.End(nil)
		for name, s := range x.all(t) {
			if s.Attributes["error.type"] != want || s.Attributes["rpc.response.status_code"] != want {
				t.Errorf("%s of the code %s: %v", name, raw, s.Attributes)
			}
		}
		if len(x.ops.list) != 2 || x.ops.list[0].ErrorType != want || x.ops.list[1].ErrorType != want {
			t.Errorf("operations of the code %s: %+v", raw, x.ops.list)
		}
	}
}

// TestNamesAreBounded: agents choose names, ids and versions; a span keeps one line of them.
func TestNamesAreBounded(t *testing.T) {
	x := newTraced(t, 1)
	long := strings.Repeat("x", 10_000)
	r := request("tools/call", `{"name":"a\n\u0000`+long+`"}`)
	r.ID = jsonrpc.StringID(long)
	x.through(t, r, `{}`, nil)
	forwarded, _ := x.Forward(func() Server { return Server{Name: "files"} }, "tools/call", http.Header{"Mcp-Protocol-Version": {"2025\n" + long}}, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
	forwarded.End(nil)
	x.Close(context.WithoutCancel(t.Context()))
	for _, s := range x.c.Spans() {
		if v := s.Attributes["mcp.protocol.version"]; len(v) > 200 || strings.Contains(v, "\n") {
			t.Errorf("the version has %d bytes: %.20q", len(v), v)
		}
		if len(s.Name) > 200 || strings.ContainsAny(s.Name, "\n\x00") || len(s.Attributes["jsonrpc.request.id"]) > 200 {
			t.Errorf("%q, %v", s.Name, s.Attributes)
		}
	}
}
