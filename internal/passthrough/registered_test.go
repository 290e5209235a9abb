package passthrough_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// registered has the upstream "fake" be one that has registered itself. What goes
// to it is counted by the result.
func registered(t *testing.T, o *passthrough.Options, further ...string) *atomic.Int64 {
	through := &counted{base: &http.Transport{DisableCompression: true}}
	t.Cleanup(through.base.CloseIdleConnections)
	o.Registered = func(name string) http.RoundTripper {
		if name != "fake" {
			return nil
		}
		return through
	}
	o.AgentHeaders = func() []string { return further }
	return &through.n
}

type counted struct {
	base *http.Transport
	n    atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.base.RoundTrip(r)
}

// What MCP needs reaches an upstream that has registered itself, and nothing else
// of an agent's request: it may be a service of another kind, to which a header is
// a command.
func TestRegisteredGetsMCP(t *testing.T) {
	var got atomic.Pointer[http.Header]
	var through *atomic.Int64
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		got.Store(&h)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Of-Server", "internal")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	}, func(_ *passthrough.Target, o *passthrough.Options) {
		through = registered(t, o, "x-tenant", "X-Real-IP", "Authorization")
	})
	res := e.post(mcpPath, initRequest, "Metadata-Flavor", "Google", "X-Aws-Ec2-Metadata-Token", "t", "X-Custom", "1", "X-Real-IP", "127.0.0.1",
		"X-Forwarded-For", "127.0.0.1", "X-Http-Method-Override", "PUT", "User-Agent", "agent", "Cookie", "a=b", "X-Tenant", "blue",
		"Mcp-Protocol-Version", "2025-11-25", "Last-Event-Id", "7", "Traceparent", "00-1-2-03", "Tracestate", "a=b", "Baggage", "c=d", "Mcp-Name", "x")
	if res.status != http.StatusOK || res.header.Get("X-Of-Server") != "" {
		t.Fatalf("%d %v %s", res.status, res.header, res.body)
	}
	h := *got.Load()
	for name, want := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Mcp-Protocol-Version": "2025-11-25", "Last-Event-Id": "7",
		"Traceparent": "00-1-2-03", "Tracestate": "a=b", "Baggage": "c=d", "X-Tenant": "blue",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, h.Get(name), want)
		}
		h.Del(name)
	}
	h.Del("Content-Length")
	h.Del("Via")
	for name := range h {
		t.Errorf("the upstream got %s: %q", name, h.Get(name))
	}
	if through.Load() != 1 {
		t.Errorf("%d requests went the guarded way", through.Load())
	}
}

// A service that is no MCP server tells nothing through a registration.
func TestRegisteredAnswersMCP(t *testing.T) {
	const secret = "AKIA-INTERNAL-SECRET"
	const page, text, object = "text/html", "text/plain", "application/json"
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	note := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	rpc := func(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }
	stream := "text/event-stream"
	for _, c := range []struct {
		name, method, body string
		status             int
		kind, answer       string
		want               int // status at the agent
		passes             bool
	}{
		{"GET of JSON", "GET", "", 200, object, `{"key":"` + secret + `"}`, 502, false},
		{"GET of a page", "GET", "", 200, page, secret, 502, false},
		{"GET of JSON-RPC", "GET", "", 200, object, rpc(`"` + secret + `"`), 502, false},
		{"GET that fails", "GET", "", 403, object, `{"key":"` + secret + `"}`, 403, false},
		{"GET that does not exist", "GET", "", 405, text, secret, 405, false},
		{"GET of events", "GET", "", 200, stream, "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", 200, true},
		{"initialize with JSON", "POST", initRequest, 200, object, `{"key":"` + secret + `"}`, 502, false},
		{"initialize with a text", "POST", initRequest, 200, text, secret, 502, false},
		{"initialize with another result", "POST", initRequest, 200, object, rpc(`{"key":"` + secret + `"}`), 502, false},
		{"initialize without capabilities", "POST", initRequest, 200, object, rpc(`{"protocolVersion":"2025-11-25","key":"` + secret + `"}`), 502, false},
		{"initialize with another id", "POST", initRequest, 200, object, `{"jsonrpc":"2.0","id":2,"result":{"key":"` + secret + `"}}`, 502, false},
		{"initialize that fails with JSON", "POST", initRequest, 404, object, `{"key":"` + secret + `"}`, 404, false},
		{"initialize that is refused", "POST", initRequest, 400, object, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`, 400, true},
		{"initialize", "POST", initRequest, 200, object, rpc(`{"protocolVersion":"2025-11-25","capabilities":{}}`), 200, true},
		{"initialize as events", "POST", initRequest, 200, stream, ": hi\n\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\ndata: " + rpc(`{"protocolVersion":"2025-11-25","capabilities":{}}`) + "\n\n", 200, true},
		{"initialize with other events", "POST", initRequest, 200, stream, "data: " + secret + "\n\n", 502, false},
		{"initialize with a wrong event", "POST", initRequest, 200, stream, "data: " + rpc(`{"key":"`+secret+`"}`) + "\n\n", 502, false},
		{"initialize with no event", "POST", initRequest, 200, stream, "", 502, false},
		{"a call with JSON", "POST", call, 200, object, `{"key":"` + secret + `"}`, 502, false},
		{"a call with half a response", "POST", call, 200, object, rpc(`{"key":"` + secret + `"`), 502, false},
		{"a call with a batch", "POST", call, 200, object, `[` + rpc(`{"key":"`+secret+`"}`) + `]`, 502, false},
		{"a call", "POST", call, 200, object, rpc(`{"content":[]}`), 200, true},
		{"a call that fails", "POST", call, 500, object, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}`, 500, true},
		{"a notification with JSON", "POST", note, 200, object, `{"key":"` + secret + `"}`, 502, false},
		{"a notification with a page", "POST", note, 200, page, secret, 502, false},
		{"a notification that fails", "POST", note, 403, text, secret, 403, false},
		{"a notification to one that does not know weir", "POST", note, 401, text, secret, 502, false},
		{"a notification through a proxy that does not know weir", "POST", note, 407, text, secret, 502, false},
		{"a call to one that does not know weir", "POST", call, 401, object, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"` + secret + `"}}`, 502, false},
		{"GET from one that does not know weir", "GET", "", 401, text, secret, 502, false},
		{"DELETE at one that does not know weir", "DELETE", "", 401, page, secret, 502, false},
		{"a notification", "POST", note, 202, "", "", 202, true},
		{"DELETE with a page", "DELETE", "", 200, page, secret, 200, false},
		{"DELETE that fails", "DELETE", "", 404, page, secret, 404, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
				if c.kind != "" {
					w.Header().Set("Content-Type", c.kind)
				}
				w.Header().Set("X-Key", secret)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}, func(target *passthrough.Target, o *passthrough.Options) {
				registered(t, o)
				target.Version = mcp.V20260728 // so that nothing but the answer decides
				if c.method != "POST" || c.body == initRequest {
					target.Version = mcp.V20251125
				}
			})
			body, header := c.body, []string{}
			if c.body == call {
				body = modern(`"id":1,"method":"tools/call"`, `"name":"x"`)
				header = []string{"Mcp-Protocol-Version", mcp.V20260728, "Mcp-Method", "tools/call", "Mcp-Name", "x"}
			}
			if c.body == note {
				body = `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
				header = []string{"Mcp-Protocol-Version", mcp.V20260728, "Mcp-Method", "notifications/initialized"}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			res := e.do(e.request(ctx, c.method, mcpPath, body, header...))
			if res.status != c.want || strings.Contains(res.body, secret) || res.header.Get("X-Key") != "" {
				t.Fatalf("%d %v %s, want %d", res.status, res.header, res.body, c.want)
			}
			switch {
			case c.passes && res.body != c.answer:
				t.Errorf("got %q, want %q", res.body, c.answer)
			case !c.passes && c.want == 502 && (len(res.msgs) != 1 || string(rawjson.GetPath([]byte(res.msgs[0]), "error", "code")) != "-32603" || !strings.Contains(res.body, `upstream \"fake\"`)):
				t.Errorf("got %s, want an error of the router's", res.body)
			}
		})
	}
}

// A long answer that is a response passes, too, whichever member comes first.
func TestRegisteredAnswersMuch(t *testing.T) {
	answer := `{"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]},"jsonrpc":"2.0","id":1}`
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}, func(target *passthrough.Target, o *passthrough.Options) {
		registered(t, o)
		target.Version = mcp.V20260728
	})
	res := e.post(mcpPath, modern(`"id":1,"method":"tools/call"`, `"name":"x"`), "Mcp-Protocol-Version", mcp.V20260728, "Mcp-Method", "tools/call", "Mcp-Name", "x")
	if res.status != 200 || res.body != answer {
		t.Errorf("%d, %d bytes, want %d", res.status, len(res.body), len(answer))
	}
}
