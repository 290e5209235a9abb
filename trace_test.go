package weir_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// tracedServer is an MCP server with one tool, which remembers the trace contexts that it is called
// with.
type tracedServer struct {
	mu      sync.Mutex
	parents []string
}

// Serve implements mcp.Handler.
func (s *tracedServer) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	switch r.Method {
	case "tools/list":
		return json.RawMessage(`{"tools":[{"name":"echo","description":"says it again","inputSchema":{"type":"object"}}]}`), nil
	case "tools/call":
		var params struct {
			Meta struct{ Traceparent string } `json:"_meta"`
		}
		if err := json.Unmarshal(r.Params, &params); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.parents = append(s.parents, params.Meta.Traceparent)
		if strings.Contains(string(r.Params), "fail on a stream") {
			for range 2000 { // more than the end of the stream that is kept
				if err := r.Peer.Notify(ctx, "notifications/message", json.RawMessage(`{"level":"error","data":"`+strings.Repeat("x", 100)+`"}`)); err != nil {
					return nil, err
				}
			}
			return json.RawMessage(`{"content":[],"isError":true}`), nil
		}
		return json.RawMessage(`{"content":[{"type":"text","text":"a private result"}]}`), nil
	}
	return nil, mcp.MethodNotFound(r.Method)
}

// seen returns the trace contexts since the last call of seen.
func (s *tracedServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.parents
	s.parents = nil
	return out
}

// serveTraced serves an MCP server over HTTP and returns its URL.
func serveTraced(t *testing.T, s *tracedServer) string {
	t.Helper()
	life := &mcp.Lifecycle{ServerInfo: json.RawMessage(`{"name":"traced","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) }, Next: s}
	h := streamable.NewServer(streamable.ServerOptions{Handler: life})
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		if err := h.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return web.URL
}

// gatewayAt starts a gateway and returns its URL and the function that ends it.
func gatewayAt(t *testing.T, yaml string) (url string, end func()) {
	t.Helper()
	c, err := weir.Parse("weir.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	g, err := weir.New(t.Context(), c, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(g)
	end = sync.OnceFunc(func() {
		if err := g.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	t.Cleanup(end)
	if err := g.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return web.URL, end
}

// session is a client's session at an endpoint.
type session struct {
	t       *testing.T
	url, id string
	n       int
}

func openSession(t *testing.T, url string) *session {
	t.Helper()
	s := &session{t: t, url: url}
	s.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	return s
}

// ask sends a request, with headers in pairs, and returns the text of the response.
func (s *session) ask(method, params string, header ...string) string {
	s.t.Helper()
	s.n++
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, s.n, method, params)
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		r.Header.Set("Mcp-Session-Id", s.id)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %s, %v", method, resp.StatusCode, out, err)
	}
	if s.id == "" {
		s.id = resp.Header.Get("Mcp-Session-Id")
	}
	return string(bytes.TrimSpace(out))
}

// TestTraceThroughTwoGateways: an agent's trace goes on through two gateways to the server, span by
// span, on each way through the first.
func TestTraceThroughTwoGateways(t *testing.T) {
	const id, root = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const parent = "00-" + id + "-" + root + "-01"
	for _, c := range []struct {
		name, path, tool string
		meta             bool   // the agent states the context in _meta, else in a header
		first            string // of the way through the first gateway
	}{
		{"every tool", "/mcp", "b__up__echo", true, ""},
		{"the header", "/mcp", "b__up__echo", false, ""},
		{"bytes handed on", "/mcps/b/mcp", "up__echo", true, ""},
		{"bytes handed on, the header", "/mcps/b/mcp", "up__echo", false, ""},
		{"messages read", "/mcps/b/mcp", "up__echo", true, "policy: {rules: [{action: deny, tool: \"*:never\"}]}\n"},
		{"messages read, the header", "/mcps/b/mcp", "up__echo", false, "policy: {rules: [{action: deny, tool: \"*:never\"}]}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			collector, server := tracetest.New(t), &tracedServer{}
			const gateway = "mode: plain\nmcpServers: {%s: {url: %q, required: true}}\notlp: {url: %q, service_name: %s, sample: 0}\n"
			second, endSecond := gatewayAt(t, fmt.Sprintf(gateway, "up", serveTraced(t, server), collector.URL, "second"))
			first, endFirst := gatewayAt(t, c.first+fmt.Sprintf(gateway, "b", second+"/mcp", collector.URL, "first"))
			agent := openSession(t, first+c.path)
			if tools := agent.ask("tools/list", "{}"); !strings.Contains(tools, `"`+c.tool+`"`) {
				t.Fatalf("the tools: %s", tools)
			}
			params, header := `{"name":"`+c.tool+`","arguments":{"text":"a private argument"}}`, []string{"Traceparent", parent}
			if c.meta {
				params, header = `{"name":"`+c.tool+`","arguments":{"text":"a private argument"},"_meta":{"traceparent":"`+parent+`"}}`, nil
			}
			if out := agent.ask("tools/call", params, header...); !strings.Contains(out, "a private result") {
				t.Fatal(out)
			}
			endFirst()
			endSecond()
			spans := collector.Spans()
			var chain []string // from the server back to the agent
			seen := server.seen()
			if len(seen) != 1 || len(seen[0]) != 55 || seen[0][3:35] != id {
				t.Fatalf("the server is called with %q", seen)
			}
			for at := seen[0][36:52]; at != root; {
				i := slices.IndexFunc(spans, func(s tracetest.Span) bool { return s.ID == at && s.Trace == id })
				if i < 0 || len(chain) > len(spans) {
					t.Fatalf("%s is no span: %v, %+v", at, chain, spans)
				}
				chain = append(chain, spans[i].Service+" "+spans[i].Kind)
				at = spans[i].Parent
			}
			if want := []string{"second client", "second server", "first client", "first server"}; !slices.Equal(chain, want) || len(spans) != len(want) {
				t.Errorf("the chain %q of %d spans", chain, len(spans))
			}
			for _, body := range collector.Bodies() {
				if strings.Contains(body, "private") || strings.Contains(body, agent.id) {
					t.Errorf("a span tells too much: %s", body)
				}
			}
		})
	}
}

// TestNoSpansNoChange: without otlp, a server gets the context that the agent states in _meta or in a
// header, and none if the agent states none. Where bytes are handed on, a header stays one.
func TestNoSpansNoChange(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct{ name, path, tool, policy, header string }{
		{"gateway", "/mcp", "up__echo", "", parent},
		{"bytes handed on", "/mcps/up/mcp", "echo", "", ""},
		{"messages read", "/mcps/up/mcp", "echo", "policy: {rules: [{action: deny, tool: \"*:never\"}]}\n", parent},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := &tracedServer{}
			url, _ := gatewayAt(t, c.policy+fmt.Sprintf("mode: plain\nmcpServers: {up: {url: %q, required: true}}\n", serveTraced(t, server)))
			agent := openSession(t, url+c.path)
			params := `{"name":"` + c.tool + `","arguments":{}}`
			agent.ask("tools/call", params)
			agent.ask("tools/call", `{"name":"`+c.tool+`","arguments":{},"_meta":{"traceparent":"`+parent+`"}}`)
			agent.ask("tools/call", params, "Traceparent", parent)
			if seen := server.seen(); !slices.Equal(seen, []string{"", parent, c.header}) {
				t.Errorf("the server is called with %q", seen)
			}
		})
	}
}

// TestAuditNamesTheTrace: records of a call name its trace, also if weir began it.
func TestAuditNamesTheTrace(t *testing.T) {
	dir, collector, server := t.TempDir(), tracetest.New(t), &tracedServer{}
	url, end := gatewayAt(t, fmt.Sprintf("mode: plain\nmcpServers: {up: {url: %q, required: true}}\notlp: {url: %q}\naudit: {dir: %q}\n", serveTraced(t, server), collector.URL, dir))
	for path, tool := range map[string]string{"/mcp": "up__echo", "/mcps/up/mcp": "echo"} {
		openSession(t, url+path).ask("tools/call", `{"name":"`+tool+`","arguments":{}}`)
	}
	end()
	called := map[string]bool{}
	for _, s := range collector.Spans() {
		if s.Kind == "client" && s.Attributes["mcp.method.name"] == "tools/call" {
			called[s.Trace] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 || len(called) != 2 {
		t.Fatalf("%v, %v, traces %v", files, err, called)
	}
	n := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var record struct{ Kind, Method, Trace string }
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			if record.Method == "tools/call" {
				if n++; !called[record.Trace] {
					t.Errorf("a record of another trace: %s", line)
				}
			}
		}
	}
	if n != 4 { // the begin and the end of each
		t.Errorf("%d records", n)
	}
}

// TestStreamIsReadForSpans: where bytes are handed on, a tool's failure at the end of an event stream
// is in the spans, and the agent gets every byte.
func TestStreamIsReadForSpans(t *testing.T) {
	collector := tracetest.New(t)
	url, end := gatewayAt(t, fmt.Sprintf("mcpServers: {up: {url: %q, required: true}}\notlp: {url: %q}\n", serveTraced(t, &tracedServer{}), collector.URL))
	out := openSession(t, url+"/mcps/up/mcp").ask("tools/call", `{"name":"echo","arguments":{"text":"fail on a stream"}}`)
	if n := strings.Count(out, "notifications/message"); n != 2000 || !strings.Contains(out, `"isError":true`) {
		t.Errorf("%d notices, and %.200s", n, out[max(0, len(out)-200):])
	}
	end()
	failed := 0
	for _, s := range collector.Spans() {
		if s.Name == "tools/call echo" && s.Failed && s.Attributes["error.type"] == "tool_error" {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d failed spans: %+v", failed, collector.Spans())
	}
}

// TestSpansAfterAReload: otlp of a changed configuration applies to the next request.
func TestSpansAfterAReload(t *testing.T) {
	collector := tracetest.New(t)
	base := fmt.Sprintf("mode: plain\nmcpServers: {up: {url: %q, required: true}}\n", serveTraced(t, &tracedServer{}))
	read := func(yaml string) *weir.Config {
		t.Helper()
		c, err := weir.Parse("weir.yaml", []byte(yaml))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	g, err := weir.New(t.Context(), read(base), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(g)
	defer web.Close()
	agent := openSession(t, web.URL+"/mcp")
	agent.ask("ping", "{}")
	for _, otlp := range []string{fmt.Sprintf("otlp: {url: %q}\n", collector.URL), ""} {
		if err := g.Reload(read(base + otlp)); err != nil {
			t.Fatal(err)
		}
		agent.ask("ping", "{}")
	}
	if err := g.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if spans := collector.Spans(); len(spans) != 1 || spans[0].Name != "ping" {
		t.Errorf("spans %+v", spans)
	}
}
