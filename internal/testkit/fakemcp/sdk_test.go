package fakemcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

//lint:file-ignore SA1019 what is deprecated in the newest version is part of the older ones, which are tested as well

// The official client is the reference for what a correct server says.

func newServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// pipe is a connection with a server over stdio, in memory.
type pipe struct {
	in    *io.PipeReader // what the server wrote
	out   *io.PipeWriter // what the server reads
	ended chan error
}

func serveOnPipe(t testing.TB, s *Server) *pipe {
	t.Helper()
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	p := &pipe{clientIn, clientOut, make(chan error, 1)}
	go func() {
		err := s.ServeStdio(context.Background(), serverIn, serverOut)
		_ = serverOut.Close()
		p.ended <- err
	}()
	t.Cleanup(func() {
		_ = clientOut.Close()
		_ = clientIn.Close()
		if err := <-p.ended; err != nil {
			t.Errorf("ServeStdio = %v, want a clean end", err)
		}
	})
	return p
}

func serveOnHTTP(t testing.TB, s *Server) (url string, client *http.Client) {
	t.Helper()
	server := httptest.NewServer(s)
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.stop(errStopped) // streams end, or the server waits for them
		server.Close()
	})
	return server.URL, &http.Client{Transport: transport}
}

func connect(t testing.TB, transport mcp.Transport, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect with %s: %v", version, err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// eachTransport runs a test over every transport and version that go together.
func eachTransport(t *testing.T, cfg Config, opts *mcp.ClientOptions, test func(t *testing.T, s *Server, session *mcp.ClientSession, version string)) {
	for _, version := range Versions() {
		t.Run("stdio "+version, func(t *testing.T) {
			s := newServer(t, cfg)
			p := serveOnPipe(t, s)
			test(t, s, connect(t, &mcp.IOTransport{Reader: p.in, Writer: p.out}, version, opts), version)
		})
		t.Run("http "+version, func(t *testing.T) {
			s := newServer(t, cfg)
			url, client := serveOnHTTP(t, s)
			test(t, s, connect(t, &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: client}, version, opts), version)
		})
	}
	t.Run("sse 2024-11-05", func(t *testing.T) {
		s := newServer(t, cfg)
		url, client := serveOnHTTP(t, s)
		test(t, s, connect(t, &mcp.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: client}, "2024-11-05", opts), "2024-11-05")
	})
}

func callText(t testing.TB, session *mcp.ClientSession, params *mcp.CallToolParams) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatalf("%s: %v", params.Name, err)
	}
	return result.Content[0].(*mcp.TextContent).Text
}

type args = map[string]any

func TestEveryVersionOverEveryTransport(t *testing.T) {
	var progressed, logged int
	var mu sync.Mutex
	count := func(n *int) { mu.Lock(); *n++; mu.Unlock() }
	taken := func(n *int) int { mu.Lock(); defer mu.Unlock(); v := *n; *n = 0; return v }
	opts := &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { count(&progressed) },
		LoggingMessageHandler:       func(context.Context, *mcp.LoggingMessageRequest) { count(&logged) },
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "weir"}}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
	}
	eachTransport(t, Config{Tools: 5, Pages: 3}, opts, func(t *testing.T, s *Server, session *mcp.ClientSession, version string) {
		if got := session.InitializeResult().ProtocolVersion; got != version {
			t.Fatalf("negotiated %s, want %s", got, version)
		}
		names := []string{}
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		if want := len(builtin()) + 5; len(names) != want || names[0] != "echo" || names[want-1] != "tool_0004" {
			t.Errorf("%d tools, want %d: %v", len(names), want, names)
		}
		for _, c := range []struct {
			tool string
			args args
			want string
		}{
			{"echo", args{"text": "a \"quoted\" naïve\nline"}, "a \"quoted\" naïve\nline"},
			{"echo", args{"size": 100_000}, strings.Repeat("x", 100_000)},
			{"echo", args{"size": 0}, ""},
			{"echo", nil, ""},
			{"tool_0003", args{"text": "three"}, "three"},
			{"region", args{"region": "Zürich"}, "Zürich"},
			{"counter", nil, "1"},
			{"counter", nil, "2"},
			{"refuse", args{"message": "no"}, "no"},
			{"sleep", args{"sleep_ms": 1}, "slept"},
			{"elicit", args{"rounds": 2}, `"name":"Ada"`},
			{"sample", nil, `"weir"`},
			{"roots", nil, `"roots"`},
		} {
			if got := callText(t, session, &mcp.CallToolParams{Name: c.tool, Arguments: c.args}); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
				t.Errorf("%s(%v) = %.80q, want %.80q", c.tool, c.args, got, c.want)
			}
		}
		for _, burst := range []bool{false, true} {
			params := &mcp.CallToolParams{Name: "progress", Arguments: args{"n": 20, "burst": burst}}
			params.SetProgressToken("token")
			if got := callText(t, session, params); got != "20 steps" {
				t.Errorf("progress: %q", got)
			}
		}
		callText(t, session, &mcp.CallToolParams{Name: "log", Arguments: args{"n": 4}})
		// The client hands notifications to another goroutine than the answer: it may be late.
		deadline := time.Now().Add(30 * time.Second)
		gotProgress, gotLogs := 0, 0
		for gotProgress < 40 || gotLogs < 4 {
			if time.Now().After(deadline) {
				t.Fatalf("%d progress and %d log notifications, want 40 and 4", gotProgress, gotLogs)
			}
			gotProgress, gotLogs = gotProgress+taken(&progressed), gotLogs+taken(&logged)
			time.Sleep(time.Millisecond)
		}
		for tool, code := range map[string]int64{"fail": -32042, "no_such_tool": codeInvalidParams, "tool_0005": codeInvalidParams} {
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args{"code": -32042, "message": "told to"}})
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || wire.Code != code {
				t.Errorf("%s: %v, want code %d", tool, err, code)
			}
		}
	})
}

func TestToolsChange(t *testing.T) {
	for _, version := range []string{Modern, "2025-11-25"} {
		changed := make(chan struct{}, 8)
		opts := &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }}
		check := func(t *testing.T, session *mcp.ClientSession) {
			t.Helper()
			// The stream for such messages may still be on its way: announce until it is heard.
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for heard := false; !heard; {
				callText(t, session, &mcp.CallToolParams{Name: "set_tools", Arguments: args{"n": 7}})
				select {
				case <-changed:
					heard = true
				case <-tick.C:
				case <-t.Context().Done():
					t.Fatal("no notification")
				}
			}
			list, err := session.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 7 {
				t.Errorf("%d tools after the change (%v), want 7", len(list.Tools), err)
			}
		}
		t.Run("stdio "+version, func(t *testing.T) {
			p := serveOnPipe(t, newServer(t, Config{Bare: true, Tools: 2}))
			check(t, connect(t, &mcp.IOTransport{Reader: p.in, Writer: p.out}, version, opts))
		})
		t.Run("http "+version, func(t *testing.T) {
			url, client := serveOnHTTP(t, newServer(t, Config{Bare: true, Tools: 2}))
			check(t, connect(t, &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: client}, version, opts))
		})
	}
}

func TestCancelledCallsAreLogged(t *testing.T) {
	eachTransport(t, Config{}, nil, func(t *testing.T, s *Server, session *mcp.ClientSession, version string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "sleep", Arguments: args{"sleep_ms": 60_000}})
			ended <- err
		}()
		waitForEvent(t, s, "sleeping")
		cancel()
		if <-ended == nil {
			t.Fatal("the call was not cancelled")
		}
		waitForEvent(t, s, "cancelled", "disconnected")
		if got := callText(t, session, &mcp.CallToolParams{Name: "echo", Arguments: args{"text": "next"}}); got != "next" {
			t.Errorf("the next call gives %q", got)
		}
	})
}

// waitForEvent waits until the server recorded an event that begins with one of the words.
func waitForEvent(t testing.TB, s *Server, words ...string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, event := range s.Events() {
			if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(event, w) }) {
				return event
			}
		}
	}
	t.Fatalf("no event %q; there are %q", words, s.Events())
	return ""
}

func TestThreeThousandToolsInThirtyPages(t *testing.T) {
	p := serveOnPipe(t, newServer(t, Config{Bare: true, Tools: 3000, Pages: 30}))
	session := connect(t, &mcp.IOTransport{Reader: p.in, Writer: p.out}, "2025-06-18", nil)
	cursor, pages, seen := "", 0, map[string]bool{}
	for {
		list, err := session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, tool := range list.Tools {
			seen[tool.Name] = true
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if pages != 30 || len(seen) != 3000 {
		t.Errorf("%d tools in %d pages, want 3000 in 30", len(seen), pages)
	}
	for _, cursor := range []string{"page-0", "page-30", "page-x", "p"} {
		if _, err := session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor}); err == nil {
			t.Errorf("cursor %q was taken", cursor)
		}
	}
}

// BenchmarkEcho calls echo over HTTP; the baseline is a net/http handler that writes a fixed
// answer of the same size, in the same run.
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`, strings.Repeat("a", size))
			answer := bytes.Repeat([]byte("a"), size+80)
			plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = w.Write(answer)
			}))
			defer plain.Close()
			url, client := serveOnHTTP(b, newServer(b, Config{NoSessions: true}))
			post := func(url string) {
				resp, err := client.Post(url, "application/json", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < int64(size) || resp.StatusCode != http.StatusOK {
					b.Errorf("%s, %d bytes, %v", resp.Status, n, err)
				}
				_ = resp.Body.Close()
			}
			const rounds = 300
			post(plain.URL)
			start := time.Now()
			for range rounds {
				post(plain.URL)
			}
			baseline := time.Since(start) / rounds
			post(url + "/mcp")
			for b.Loop() {
				post(url + "/mcp")
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(baseline), "x_baseline")
		})
	}
}
