package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func testLifecycle() *Lifecycle {
	return &Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"t","version":"1"}`),
		Instructions: "be kind",
		Capabilities: func(*Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
		Next: HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
			return json.RawMessage(`{"a":1}`), nil
		}),
	}
}

func TestLifecycle(t *testing.T) {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, c := range []struct {
		name, version, method, params string
		want                          string // the result, or the error's text
	}{
		{"initialize", "", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{}}`, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"},"instructions":"be kind"}`},
		{"unknown version", "", "initialize", `{"protocolVersion":"1999-01-01"}`, `{"protocolVersion":"2025-11-25",`},
		{"modern version in a handshake", "", "initialize", `{"protocolVersion":"2026-07-28"}`, `{"protocolVersion":"2025-11-25",`},
		{"no version", "", "initialize", `{}`, "protocolVersion must be a string"},
		{"twice", V20250618, "initialize", `{"protocolVersion":"2025-06-18"}`, "initialized already"},
		{"before initialize", "", "tools/list", ``, "before initialize"},
		{"ping before initialize", "", "ping", ``, `{}`},
		{"ping", V20250618, "ping", ``, `{}`},
		{"ping is gone", V20260728, "ping", `{` + meta + `}`, "method not found"},
		{"legacy result stays", V20250618, "tools/list", ``, `{"a":1}`},
		{"modern result is completed", V20260728, "tools/list", `{` + meta + `}`, `{"resultType":"complete","a":1,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"t","version":"1"}}}`},
		{"discover", V20260728, "server/discover", `{` + meta + `}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28",`},
		{"level", V20250618, "logging/setLevel", `{"level":"warning"}`, `{}`},
		{"bad level", V20250618, "logging/setLevel", `{"level":"loud"}`, "level must be one of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewSession("", "p")
			s.SetVersion(c.version)
			out, err := testLifecycle().Serve(t.Context(), &Request{ID: "1", Method: c.method, Params: json.RawMessage(c.params), Version: c.version, Session: s, Peer: NoPeer})
			got := string(out)
			if err != nil {
				got = err.Error()
			} else if !json.Valid(out) {
				t.Errorf("invalid JSON: %s", out)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestErrorTable(t *testing.T) {
	names := map[string]bool{}
	for i, k := range Kinds {
		if int(k.Kind) != i {
			t.Errorf("row %d of Kinds is %s", i, k.Name)
		}
		if names[k.Name] || k.Name == "" || k.Meaning == "" || k.Gateway == "" || k.HTTP < 400 || k.JSONRPC >= -32000+1 {
			t.Errorf("bad row %+v", k)
		}
		names[k.Name] = true
	}
}

func TestWireError(t *testing.T) {
	upstream := jsonrpc.ParseError([]byte(`{"code":-7,"message":"theirs"}`))
	for _, c := range []struct {
		err     error
		version string
		code    int
		text    string
	}{
		{fmt.Errorf("wrapped: %w", upstream), V20250618, -7, "theirs"},
		{Errorf(KindResourceNotFound, "no such thing"), V20251125, -32002, "no such thing"},
		{Errorf(KindResourceNotFound, "no such thing"), V20260728, -32602, "no such thing"},
		{context.Canceled, V20250618, -32800, "cancelled"},
		{errors.New("dial tcp: password=hunter2"), V20250618, -32603, "internal error"},
	} {
		e := WireError(c.err, c.version)
		if e.Code != c.code || !strings.Contains(e.Message, c.text) || strings.Contains(e.Message, "hunter2") {
			t.Errorf("%v became %v", c.err, e)
		}
	}
}

func TestSwapProgressToken(t *testing.T) {
	for _, c := range []struct{ in, out, token string }{
		{``, ``, ``},
		{`{"a":1}`, `{"a":1}`, ``},
		{`{"_meta":{}}`, `{"_meta":{}}`, ``},
		{`{"_meta":{"progressToken":"x","k":1.0},"z":[1]}`, `{"_meta":{"progressToken":5,"k":1.0},"z":[1]}`, `"x"`},
	} {
		out, token, err := SwapProgressToken(json.RawMessage(c.in), 5)
		if err != nil || string(out) != c.out || string(token) != c.token {
			t.Errorf("%s became %s, %s, %v", c.in, out, token, err)
		}
	}
	if _, _, err := SwapProgressToken(json.RawMessage(`{"_meta":{"progressToken":1,"progressToken":2}}`), 5); err == nil {
		t.Error("a duplicate token was accepted")
	}
}

func TestSession(t *testing.T) {
	s := NewSession("", "p")
	var order []int
	stop := s.OnClose(func() { order = append(order, 0) })
	s.OnClose(func() { order = append(order, 1) })
	s.OnClose(func() { order = append(order, 2) })
	stop()
	type key struct{}
	if s.Value(key{}, nil) != nil || s.Value(key{}, func() any { return 5 }) != 5 || s.Value(key{}, func() any { return 6 }) != 5 {
		t.Error("Value does not keep the first value")
	}
	s.Close()
	s.Close()
	s.OnClose(func() { order = append(order, 3) })
	if fmt.Sprint(order) != "[2 1 3]" {
		t.Errorf("closed in order %v", order)
	}
	select {
	case <-s.Done():
	default:
		t.Error("not done")
	}
	if len(s.ID()) < 22 {
		t.Errorf("id %q is too short to be a secret", s.ID())
	}
}

// A passthrough is a Handler that calls a Peer.
func ExampleForward() {
	a, b := Pipe()
	server := NewConn(b, ConnOptions{Handler: &Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"example","version":"1"}`),
		Capabilities: func(*Request) json.RawMessage { return json.RawMessage(`{}`) },
		Next:         &Mux{},
	}})
	defer server.Close()
	upstream := NewConn(a, ConnOptions{Client: true})
	defer upstream.Close()

	h := Forward(upstream)
	agent := &Request{ID: "1", Method: "initialize", Params: json.RawMessage(`{"protocolVersion":"2025-11-25"}`), Session: NewSession("", "me"), Peer: NoPeer}
	result, err := h.Serve(context.Background(), agent)
	fmt.Println(string(rawjson.Get(result, "protocolVersion")), err)
	// Output: "2025-11-25" <nil>
}

func TestComplete(t *testing.T) {
	const info = `{"name":"t"}`
	const ours = `"io.modelcontextprotocol/serverInfo":{"name":"t"}`
	for in, want := range map[string]string{
		``:                                  `{"resultType":"complete","_meta":{` + ours + `}}`,
		`{ }`:                               `{"resultType":"complete","_meta":{` + ours + `} }`,
		`{"a":12345678901234567890}`:        `{"resultType":"complete","a":12345678901234567890,"_meta":{` + ours + `}}`,
		` {"a":1 , "_meta":{"x":1},"b":2} `: ` {"resultType":"complete","a":1 , "_meta":{"x":1,` + ours + `},"b":2} `,
		`{"_meta":{}}`:                      `{"resultType":"complete","_meta":{` + ours + `}}`,
		`{"resultType":"input_required"}`:   `{"resultType":"input_required","_meta":{` + ours + `}}`,
		`{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":1}}`: `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":1}}`,
		`{"_meta":null}`:                  `{"resultType":"complete","_meta":null}`,
		`{"_meta":{},"a":1,"_meta":{}}`:   `{"_meta":{},"a":1,"_meta":{}}`,
		`{"resultType":1,"resultType":1}`: `{"resultType":1,"resultType":1}`,
		`[1]`:                             `[1]`,
		`{"a":`:                           `{"a":`,
	} {
		raw := []byte(in)
		if got := string(Complete(raw, json.RawMessage(info))); got != want {
			t.Errorf("Complete(%s)\n got %s\nwant %s", in, got, want)
		}
		if string(raw) != in {
			t.Errorf("Complete changed its input: %s", raw)
		}
	}
	if got := string(Complete([]byte(`{"a":1}`), nil)); got != `{"resultType":"complete","a":1}` {
		t.Errorf("without an info: %s", got)
	}
}

// A caller without session and version is told the codes of its own table.
func TestSessionlessError(t *testing.T) {
	for _, c := range []struct {
		err        error
		code, bare int
	}{
		{Errorf(KindResourceNotFound, "no such resource"), -32002, -32001},
		{Errorf(KindQueueFull, "full"), -32002, -32002},
		{Errorf(KindTimeout, "slow"), -32003, -32003},
		{Errorf(KindToolExecution, "exit status 1"), -32000, -32000},
		{&jsonrpc.Error{Code: -7, Message: "theirs"}, -7, -7},
	} {
		if got := WireError(c.err, V20251125); got.Code != c.code {
			t.Errorf("%v: code %d, want %d", c.err, got.Code, c.code)
		}
		if got := SessionlessError(c.err); got.Code != c.bare {
			t.Errorf("%v without a session: code %d, want %d", c.err, got.Code, c.bare)
		}
	}
}
