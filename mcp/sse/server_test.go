package sse_test

//lint:file-ignore SA1019 The legacy era has sampling; weir serves it as long as there are legacy peers.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/sse"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// toolServer echoes, asks the client and waits for its context's end.
func toolServer(slept chan<- error) mcp.Handler {
	return &mcp.Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"test","version":"1"}`),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
		Next: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			text := func(s string) (json.RawMessage, error) {
				return json.RawMessage(`{"content":[{"type":"text","text":` + string(rawjson.Quote(s)) + `}]}`), nil
			}
			switch rawjson.Text(rawjson.Get(r.Params, "name")) {
			case "echo":
				return text(string(rawjson.Get(r.Params, "arguments")))
			case "who":
				return text(guard.Principal(ctx))
			case "ask":
				answer, err := r.Peer.Call(ctx, "sampling/createMessage", json.RawMessage(`{"messages":[],"maxTokens":1}`), nil)
				if err != nil {
					return nil, err
				}
				return text(rawjson.Text(rawjson.Get(answer, "model")))
			case "sleep":
				slept <- nil
				<-ctx.Done()
				slept <- ctx.Err()
				return nil, ctx.Err()
			}
			return nil, mcp.MethodNotFound(r.Method)
		}),
	}
}

func startServer(t *testing.T, o sse.ServerOptions) (*httptest.Server, *sse.Server) {
	t.Helper()
	if o.Handler == nil {
		o.Handler = toolServer(make(chan error, 8))
	}
	s := sse.NewServer(o)
	tokens := func(bearer string) (string, bool) { return bearer, bearer == "ann" || bearer == "bob" }
	hs := httptest.NewServer(guard.New(guard.Options{Authenticate: guard.ByName(tokens)}).Wrap(s))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		hs.Close()
	})
	return hs, s
}

// bearer adds a token to each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func TestServerWithSDKClient(t *testing.T) {
	hs, _ := startServer(t, sse.ServerOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "m-1", Role: "assistant", Content: &sdk.TextContent{}}, nil
		},
	})
	cs, err := client.Connect(ctx, &sdk.SSEClientTransport{Endpoint: hs.URL + "/a/sse", HTTPClient: &http.Client{Transport: bearer("ann")}},
		&sdk.ClientSessionOptions{ProtocolVersion: mcp.V20241105})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	if got := cs.InitializeResult().ProtocolVersion; got != mcp.V20241105 {
		t.Errorf("negotiated %s", got)
	}
	for name, want := range map[string]string{"echo": `{"n":12345678901234567890}`, "who": "ann", "ask": "m-1"} {
		res, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(`{"n":12345678901234567890}`)})
		if err != nil || res.Content[0].(*sdk.TextContent).Text != want {
			t.Errorf("%s: %v, %v; want %q", name, res, err, want)
		}
	}
}

// connection is a hand-made client.
type connection struct {
	t      *testing.T
	base   string
	path   string
	events *streamable.EventReader
	body   io.ReadCloser
}

func open(t *testing.T, hs *httptest.Server, path string) *connection {
	t.Helper()
	resp := do(t, hs, "GET", path, "ann", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("GET %s: %d %v", path, resp.StatusCode, resp.Header)
	}
	t.Cleanup(func() { resp.Body.Close() })
	c := &connection{t: t, base: hs.URL, body: resp.Body, events: streamable.NewEventReader(bufio.NewReader(resp.Body), 1<<20)}
	ev, err := c.events.Next()
	if err != nil || ev.Name != "endpoint" {
		t.Fatalf("first event %+v, %v; want endpoint", ev, err)
	}
	c.path = string(ev.Data)
	return c
}

func do(t *testing.T, hs *httptest.Server, method, path, token, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, hs.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (c *connection) next() string {
	c.t.Helper()
	ev, err := c.events.Next()
	if err != nil {
		c.t.Fatalf("next event: %v", err)
	}
	return string(ev.Data)
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

func TestServerEndpointFollowsThePath(t *testing.T) {
	hs, _ := startServer(t, sse.ServerOptions{})
	for path, want := range map[string]string{"/sse": "/messages?sessionId=", "/mcps/a%20b/sse": "/mcps/a%20b/messages?sessionId=", "/mcp": "/mcp?sessionId="} {
		if got := open(t, hs, path).path; !strings.HasPrefix(got, want) {
			t.Errorf("GET %s: endpoint %q, want it to start with %q", path, got, want)
		}
	}
}

func TestServerRefusals(t *testing.T) {
	hs, _ := startServer(t, sse.ServerOptions{MaxBody: 100, MaxPrincipalConns: 1})
	c := open(t, hs, "/sse")
	ping := `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	tests := []struct {
		name, method, path, token, body, contentType string
		status                                       int
		code                                         string
	}{
		{"no session", "POST", "/messages", "ann", ping, "application/json", 400, "-32600"},
		{"unknown session", "POST", "/messages?sessionId=x", "ann", ping, "application/json", 404, "-32001"},
		{"somebody else's session", "POST", c.path, "bob", ping, "application/json", 404, "-32001"},
		{"no JSON", "POST", c.path, "ann", "{", "application/json", 400, "-32700"},
		{"not UTF-8", "POST", c.path, "ann", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"caf\xe9\"}", "application/json", 400, "-32700"},
		{"half of a surrogate pair", "POST", c.path, "ann", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\ud83d"}}`, "application/json", 400, "-32700"},
		{"no message", "POST", c.path, "ann", `{"jsonrpc":"1.0","id":7,"method":"x"}`, "application/json", 400, "-32600"},
		{"too large", "POST", c.path, "ann", strings.Repeat(" ", 101), "application/json", 413, "-32600"},
		{"other media type", "POST", c.path, "ann", ping, "text/plain", 415, "-32600"},
		{"other method", "DELETE", c.path, "ann", "", "", 405, "-32600"},
		{"too many connections", "GET", "/sse", "ann", "", "", 503, "-32005"},
		{"accepted", "POST", c.path, "ann", ping, "application/json", 202, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp := do(t, hs, test.method, test.path, test.token, test.body, "Content-Type", test.contentType)
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if code := string(rawjson.GetPath(body, "error", "code")); resp.StatusCode != test.status || code != test.code {
				t.Errorf("%d %s, want %d with code %s", resp.StatusCode, body, test.status, test.code)
			}
			if test.status == 405 && resp.Header.Get("Allow") != "GET, POST" {
				t.Errorf("Allow = %q", resp.Header.Get("Allow"))
			}
		})
	}
	if got := c.next(); got != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("answer %s: a refused message must leave nothing behind", got)
	}
}

// The client closes its stream: handlers see their contexts end.
func TestServerClientGoesAway(t *testing.T) {
	slept := make(chan error, 2)
	hs, _ := startServer(t, sse.ServerOptions{Handler: toolServer(slept)})
	c := open(t, hs, "/sse")
	do(t, hs, "POST", c.path, "ann", hello).Body.Close()
	c.next()
	do(t, hs, "POST", c.path, "ann", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep"}}`).Body.Close()
	<-slept
	c.body.Close()
	if err := <-slept; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's context ended with %v", err)
	}
}

func TestServerShutdownAnswersWhatIsLeft(t *testing.T) {
	slept := make(chan error, 2)
	hs, s := startServer(t, sse.ServerOptions{Handler: toolServer(slept)})
	c := open(t, hs, "/sse")
	do(t, hs, "POST", c.path, "ann", hello).Body.Close()
	c.next()
	do(t, hs, "POST", c.path, "ann", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"sleep"}}`).Body.Close()
	<-slept
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	got := c.next()
	if kind := rawjson.Text(rawjson.GetPath([]byte(got), "error", "data", "kind")); kind != "shutting_down" || string(rawjson.Get([]byte(got), "id")) != `"a"` {
		t.Errorf("answer %s", got)
	}
	if _, err := c.events.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v, want the end of the stream", err)
	}
	resp := do(t, hs, "GET", "/sse", "ann", "")
	resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Errorf("GET after Shutdown: %d", resp.StatusCode)
	}
}

func TestServerKeepAlive(t *testing.T) {
	hs, _ := startServer(t, sse.ServerOptions{KeepAlive: time.Millisecond})
	resp := do(t, hs, "GET", "/sse", "ann", "")
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if in.Text() == ": keep-alive" {
			return
		}
	}
	t.Error("the stream ended without a keep-alive comment")
}

// A server of the oldest transport: one handler on both paths.
func ExampleServer() {
	s := sse.NewServer(sse.ServerOptions{Handler: mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		return json.RawMessage(`{"you":"called ` + r.Method + `"}`), nil
	})})
	mux := http.NewServeMux()
	mux.Handle("/sse", s)
	mux.Handle("/messages", s)
	hs := httptest.NewServer(mux)
	defer hs.Close()

	stream, err := http.Get(hs.URL + "/sse")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Body.Close()
	events := streamable.NewEventReader(stream.Body, 1<<20)
	endpoint, err := events.Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := http.Post(hs.URL+string(endpoint.Data), "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	answer, err := events.Next()
	fmt.Println(resp.Status, string(answer.Data), err)
	// Output: 202 Accepted {"jsonrpc":"2.0","id":1,"result":{"you":"called initialize"}} <nil>
}
