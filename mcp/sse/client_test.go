package sse_test

//lint:file-ignore SA1019 The legacy era has sampling; weir serves it as long as there are legacy peers.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/sse"
)

// oldServer is a hand-written server of 2024-11-05 with one connection.
type oldServer struct {
	endpoint string                                                         // what the endpoint event says
	stream   func(send func(raw string))                                    // what follows it, in a stream that then stays open
	post     func(w http.ResponseWriter, r *http.Request, body []byte) bool // true: answered; else 202
	posts    chan string
	out      chan string // raw events to send
	header   http.Header
}

func newOldServer() *oldServer {
	return &oldServer{endpoint: "/messages?id=1", posts: make(chan string, 64), out: make(chan string, 64)}
}

func (s *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		s.posts <- r.URL.RequestURI() + " " + string(body)
		if s.post == nil || !s.post(w, r, body) {
			w.WriteHeader(http.StatusAccepted)
		}
		return
	}
	s.header = r.Header
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	send := func(raw string) {
		_, _ = io.WriteString(w, raw)
		_ = http.NewResponseController(w).Flush()
	}
	send(": hi\n\nevent: endpoint\ndata: " + s.endpoint + "\n\n")
	if s.stream != nil {
		s.stream(send)
	}
	for {
		select {
		case raw := <-s.out:
			if raw == "end" {
				return
			}
			send(raw)
		case <-r.Context().Done():
			return
		}
	}
}

func dialOld(t *testing.T, h http.Handler, edit func(*sse.ClientOptions)) (*sse.ClientStream, string) {
	t.Helper()
	server := httptest.NewServer(h)
	opts := sse.ClientOptions{URL: server.URL + "/sse", Name: `upstream "old"`}
	if edit != nil {
		edit(&opts)
	}
	s, err := sse.Dial(t.Context(), opts)
	if err != nil {
		server.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return s, server.URL
}

func kindOf(err error) mcp.Kind {
	if err == nil {
		return 255
	}
	k, _ := mcp.KindOf(err)
	return k
}

func TestClientStream(t *testing.T) {
	old := newOldServer()
	old.stream = func(send func(string)) {
		send("event: message\ndata: {\"a\":1}\n\n: ping\n\nevent: other\ndata: x\n\ndata: {\ndata: \"b\":2}\n\n")
	}
	s, _ := dialOld(t, old, func(o *sse.ClientOptions) { o.Header = http.Header{"X-Key": {"k"}, "Accept": {"x"}} })
	for _, want := range []string{`{"a":1}`, "{\n\"b\":2}"} {
		if got, err := s.Read(); err != nil || string(got) != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	msg := []byte(`{"jsonrpc":"2.0","method":"x"}`)
	if err := s.Write(msg); err != nil {
		t.Error(err)
	}
	if got := <-old.posts; got != "/messages?id=1 "+string(msg) {
		t.Errorf("posted %q", got)
	}
	if old.header.Get("X-Key") != "k" || old.header.Get("Accept") != "text/event-stream" {
		t.Errorf("headers %v", old.header)
	}
	old.out <- "end"
	if _, err := s.Read(); kindOf(err) != mcp.KindUpstreamUnavailable || !strings.Contains(err.Error(), `upstream "old" (127.0.0.1`) {
		t.Errorf("at the end: %v", err)
	}
	if err := s.Write(msg); kindOf(err) != mcp.KindUpstreamUnavailable {
		t.Errorf("write at the end: %v", err)
	}
}

func TestClientStreamClose(t *testing.T) {
	s, _ := dialOld(t, newOldServer(), nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Read(); err != io.EOF {
			t.Errorf("read: %v", err)
		}
	})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := s.Write([]byte("{}")); err != io.EOF {
		t.Errorf("write: %v", err)
	}
}

func TestClientStreamEndpoint(t *testing.T) {
	const host = "SELF"
	for endpoint, want := range map[string]string{
		"/m?x=1":                        "/m?x=1",
		"m":                             "/m",
		"?session=1":                    "/sse?session=1",
		host + "/abs":                   "/abs",
		"https:/" + "/x/m":              "",
		"//evil.example/m":              "",
		"http://evil.test/m":            "",
		"http://SELF1/m":                "",
		"file:///etc/passwd":            "",
		"javascript:1":                  "",
		"":                              "",
		"http://[::1":                   "",
		"/" + strings.Repeat("x", 5000): "",
	} {
		t.Run(fmt.Sprintf("%.30s", endpoint), func(t *testing.T) {
			old := newOldServer()
			server := httptest.NewServer(old)
			defer server.Close()
			defer server.CloseClientConnections()
			old.endpoint = strings.Replace(endpoint, host, server.URL, 1)
			s, err := sse.Dial(t.Context(), sse.ClientOptions{URL: server.URL + "/sse"})
			if want == "" {
				if kindOf(err) != mcp.KindUpstreamUnavailable || !strings.Contains(err.Error(), "endpoint") || strings.Contains(err.Error(), "evil") {
					t.Errorf("err = %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Write([]byte("{}")); err != nil {
				t.Error(err)
			}
			if got := <-old.posts; got != want+" {}" {
				t.Errorf("posted to %q", got)
			}
		})
	}
}

func TestClientStreamDialFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		serve   http.HandlerFunc
		kind    mcp.Kind
		refused bool
	}{
		"401":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, mcp.KindUnauthorized, false},
		"405":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) }, mcp.KindUpstreamProtocol, true},
		"html":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, mcp.KindUpstreamProtocol, true},
		"no event": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }, mcp.KindUpstreamUnavailable, false},
		"silence":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, mcp.KindUpstreamTimeout, false},
		"no endings": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, mcp.KindUpstreamTimeout, false},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "data: "+strings.Repeat("x", 1<<12)); err != nil {
					return
				}
			}
		}, mcp.KindUpstreamProtocol, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.serve)
			defer server.Close()
			url := strings.Replace(server.URL, "://", "://u:hunter2@", 1) + "/sse?k=hunter2"
			patience := 100 * time.Millisecond
			if tt.kind != mcp.KindUpstreamTimeout {
				patience = 10 * time.Second
			}
			_, err := sse.Dial(t.Context(), sse.ClientOptions{URL: url, Open: patience, MaxMessage: 1 << 16})
			if kindOf(err) != tt.kind || errors.Is(err, mcp.ErrRefused) != tt.refused || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("err = %v (%s)", err, kindOf(err))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	if _, err := sse.Dial(ctx, sse.ClientOptions{URL: server.URL}); err != context.Canceled {
		t.Errorf("err = %v, want the context's", err)
	}
	if _, err := sse.Dial(t.Context(), sse.ClientOptions{URL: "hunter2"}); kindOf(err) != mcp.KindInvalidParams {
		t.Errorf("err = %v", err)
	}
}

func TestClientStreamOutlivesTheDialContext(t *testing.T) {
	old := newOldServer()
	server := httptest.NewServer(old)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := sse.Dial(ctx, sse.ClientOptions{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cancel()
	old.out <- "data: {}\n\n"
	if got, err := s.Read(); err != nil || string(got) != "{}" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestClientStreamRefusedPosts(t *testing.T) {
	status := 0
	old := newOldServer()
	old.post = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		if status > 0 {
			w.WriteHeader(status)
		}
		return status > 0
	}
	s, _ := dialOld(t, old, nil)
	status = http.StatusTooManyRequests
	if err := s.Write([]byte(`{"jsonrpc":"2.0","method":"n"}`)); err != nil {
		t.Errorf("a refused notification ended the connection: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Write([]byte(`{"jsonrpc":"2.0","id":"q","method":"tools/list"}`)); err != nil {
			t.Error(err)
		}
	})
	data, err := s.Read()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	m, err := jsonrpc.Parse(data)
	if err != nil || m.ID != `"q"` || jsonrpc.ParseError(m.Err).Code != mcp.KindRateLimited.Info().JSONRPC {
		t.Errorf("the refused request got %s, %v", data, err)
	}
	status = http.StatusNotFound
	if err := s.Write([]byte(`{"jsonrpc":"2.0","id":2,"method":"x"}`)); kindOf(err) != mcp.KindUpstreamUnavailable {
		t.Errorf("a session that is gone: %v", err)
	}
	if _, err := s.Read(); kindOf(err) != mcp.KindUpstreamUnavailable {
		t.Errorf("read: %v", err)
	}
}

func TestClientStreamSlowPostsDoNotBlock(t *testing.T) {
	old := newOldServer()
	release := make(chan struct{})
	old.post = func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if strings.Contains(string(body), "slow") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	}
	s, _ := dialOld(t, old, nil)
	start := time.Now()
	for _, msg := range []string{`"slow"`, `"fast"`} {
		if err := s.Write([]byte(msg)); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
	<-old.posts
	if got := <-old.posts; !strings.HasSuffix(got, `"fast"`) {
		t.Errorf("posted %s", got)
	}
	close(release)
}

// TestClientStreamLostServer has the server vanish while a call is under way:
// the call must fail at once, and not look as if it had never been sent.
func TestClientStreamLostServer(t *testing.T) {
	old := newOldServer()
	server := httptest.NewServer(old)
	s, err := sse.Dial(t.Context(), sse.ClientOptions{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	conn := mcp.NewConn(s, mcp.ConnOptions{Client: true})
	defer conn.Close()
	failed := make(chan error)
	go func() {
		_, err := conn.Call(context.Background(), "x", nil, nil)
		failed <- err
	}()
	<-old.posts
	server.CloseClientConnections()
	server.Close()
	if err := <-failed; kindOf(err) != mcp.KindUpstreamUnavailable || errors.Is(err, mcp.ErrNotSent) {
		t.Errorf("err = %v", err)
	}
	<-conn.Done()
	if _, err := conn.Call(t.Context(), "y", nil, nil); kindOf(err) != mcp.KindUpstreamUnavailable {
		t.Errorf("err = %v", err)
	}
}

func TestClientStreamAgainstTheGoSDK(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "sample"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1})
		res, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 5})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{res.Content}}, nil, nil
	})
	s, _ := dialOld(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil), nil)
	conn := mcp.NewConn(s, mcp.ConnOptions{Client: true})
	defer conn.Close()
	hello, err := mcp.Handshake(t.Context(), conn, nil, json.RawMessage(`{"sampling":{}}`), mcp.V20241105)
	if err != nil || hello.Version != mcp.V20241105 {
		t.Fatalf("hello %+v, %v", hello, err)
	}
	var mu sync.Mutex
	var got []string
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+string(r.Params))
		return json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"sampled"}}`), nil
	})
	result, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"sample","arguments":{},"_meta":{"progressToken":"mine"}}`), back)
	if err != nil || !strings.Contains(string(result), "sampled") {
		t.Errorf("got %s, %v", result, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 2 || !strings.Contains(got[0]+got[1], `"progressToken":"mine"`) {
		t.Errorf("back got %q", got)
	}
}

// TestClientStreamAgainstTheServer runs both sides of this package.
func TestClientStreamAgainstTheServer(t *testing.T) {
	hs, _ := startServer(t, sse.ServerOptions{Handler: toolServer(make(chan error, 1))})
	s, err := sse.Dial(t.Context(), sse.ClientOptions{URL: hs.URL + "/sse", Header: http.Header{"Authorization": {"Bearer ann"}}})
	if err != nil {
		t.Fatal(err)
	}
	conn := mcp.NewConn(s, mcp.ConnOptions{Client: true})
	defer conn.Close()
	hello, err := mcp.Handshake(t.Context(), conn, nil, nil, "")
	if err != nil || hello.Modern {
		t.Fatalf("hello %+v, %v", hello, err)
	}
	if _, err := conn.Call(t.Context(), "ping", nil, nil); err != nil {
		t.Error(err)
	}
}

// An SSE server of 2024-11-05 is reached in three steps: the stream, the
// connection over it, and the handshake.
func ExampleDial() {
	server := sdk.NewServer(&sdk.Implementation{Name: "old", Version: "1"}, nil)
	http := httptest.NewServer(sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer http.Close()
	ctx := context.Background()

	stream, err := sse.Dial(ctx, sse.ClientOptions{URL: http.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	conn := mcp.NewConn(stream, mcp.ConnOptions{Client: true})
	defer conn.Close()
	hello, err := mcp.Handshake(ctx, conn, nil, nil, mcp.V20241105)
	fmt.Println(hello.Version, string(hello.ServerInfo), err)
	// Output: 2024-11-05 {"name":"old","version":"1"} <nil>
}
