package passthrough_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// inFront starts a Router in front of a handler that is an HTTP upstream "fake".
func inFront(t *testing.T, handler http.HandlerFunc, change func(*passthrough.Target, *passthrough.Options)) *env {
	t.Helper()
	hs := httptest.NewServer(handler)
	u, err := url.Parse(hs.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	up := &fixed{target: passthrough.Target{URL: u, Version: mcp.V20251125, Timeout: 10 * time.Second}}
	o := passthrough.Options{
		Guard: guard.New(guard.Options{Authenticate: guard.ByName(func(bearer string) (string, bool) { return bearer, true })}),
		Find:  func(name string) (passthrough.Upstream, bool) { return up, name == "fake" },
		Names: func() []string { return []string{"fake"} },
	}
	if change != nil {
		change(&up.target, &o)
	}
	rt := passthrough.New(o)
	srv := httptest.NewServer(rt)
	e := &env{t: t, url: srv.URL, router: rt, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		e.client.CloseIdleConnections()
		srv.Close()
		hs.CloseClientConnections()
		hs.Close()
	})
	return e
}

const initRequest = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// TestForwardedHeaders: what is the agent's business with weir alone stays there.
func TestForwardedHeaders(t *testing.T) {
	var got atomic.Pointer[http.Request]
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Clone(context.Background()))
		h := w.Header()
		h.Set("Mcp-Session-Id", "s-1")
		h.Set("Set-Cookie", "a=b")
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("X-Of-Server", "kept")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}, func(target *passthrough.Target, _ *passthrough.Options) {
		target.Header = http.Header{"Authorization": {"Bearer of-weir"}, "X-Api-Key": {"k"}, "Mcp-Session-Id": {"forged"}, "Content-Type": {"text/plain"}}
	})
	res := e.post(mcpPath, initRequest,
		"Cookie", "c=d", "Origin", "http://localhost:3000", "Referer", "http://localhost:3000/x", "Proxy-Authorization", "Basic x", "Te", "trailers",
		"Connection", "X-Conn", "X-Conn", "1", "Sec-Fetch-Site", "same-site", "X-Forwarded-For", "10.0.0.1", "Accept-Encoding", "gzip",
		"X-Real-IP", "10.0.0.1", "X-HTTP-Method-Override", "DELETE", "X-Original-URL", "/admin", "True-Client-IP", "10.0.0.1",
		"X-Custom", "kept", "Traceparent", "00-1-2-03", "Mcp-Method", "tools/call", "Mcp-Name", "x", "Mcp-Param-Region", "eu", "Mcp-Protocol-Version", "2025-11-25", "Last-Event-Id", "7")
	r := got.Load()
	for k, want := range map[string]string{
		"Authorization": "Bearer of-weir", "X-Api-Key": "k", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"X-Custom": "kept", "Traceparent": "00-1-2-03", "Mcp-Protocol-Version": "2025-11-25", "Last-Event-Id": "7",
		"Cookie": "", "Origin": "", "Referer": "", "Proxy-Authorization": "", "Te": "", "X-Conn": "", "Sec-Fetch-Site": "", "X-Forwarded-For": "", "Accept-Encoding": "",
		"X-Real-Ip": "", "X-Http-Method-Override": "", "X-Original-Url": "", "True-Client-Ip": "",
		"Mcp-Method": "", "Mcp-Name": "", "Mcp-Param-Region": "", "Mcp-Session-Id": "",
	} {
		if v := r.Header.Get(k); v != want {
			t.Errorf("upstream got %s: %q, want %q", k, v, want)
		}
	}
	if !strings.HasPrefix(r.Host, "127.0.0.1:") || r.Host == strings.TrimPrefix(e.url, "http://") {
		t.Errorf("upstream got Host %q", r.Host)
	}
	for k, want := range map[string]string{
		"Mcp-Session-Id": "s-1", "X-Of-Server": "kept", "Content-Type": "application/json",
		"Set-Cookie": "", "X-Hop": "", "Access-Control-Allow-Origin": "http://localhost:3000",
	} {
		if v := res.header.Get(k); v != want {
			t.Errorf("agent got %s: %q, want %q", k, v, want)
		}
	}
	// A modern request keeps its headers.
	e.post(mcpPath, modern(`"id":2,"method":"tools/call"`, `"name":"x"`), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "other")
	if r2 := got.Load(); r2 != r {
		t.Error("a modern request whose headers lie was forwarded")
	}
}

// TestUnaskedEncoding: a response that is compressed although weir asked for none is refused, and its
// bytes reach no agent.
func TestUnaskedEncoding(t *testing.T) {
	for _, c := range []struct {
		encoding, kind, body string
		status, want         int
	}{
		{"gzip", "application/json", "\x1f\x8bpacked", 200, 502},
		{"ZSTD", "text/event-stream", "packed", 200, 502},
		{"br, identity", "application/json", "packed", 200, 502},
		{"gzip", "application/json", "packed", 404, 404},
		{"Identity", "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`, 200, 200},
	} {
		var sent atomic.Value
		e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
			sent.Store(r.Header.Get("Accept-Encoding"))
			w.Header().Set("Content-Encoding", c.encoding)
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}, func(target *passthrough.Target, _ *passthrough.Options) {
			target.Header = http.Header{"Accept-Encoding": {"gzip"}}
		})
		res := e.post(mcpPath, initRequest, "Mcp-Protocol-Version", "2025-11-25")
		if res.status != c.want || res.header.Get("Content-Encoding") != "" || sent.Load() != "" {
			t.Errorf("%s %d: status %d, headers %v, asked for %q", c.encoding, c.status, res.status, res.header, sent.Load())
		}
		if refused := strings.Contains(res.body, "weir asked for none"); refused != (c.body == "packed" || strings.HasPrefix(c.body, "\x1f")) || strings.Contains(res.body, "packed") {
			t.Errorf("%s %d: %s", c.encoding, c.status, res.body)
		}
	}
}

// TestModernHeaders: headers of the modern era reach an upstream of that era.
func TestModernHeaders(t *testing.T) {
	var got atomic.Pointer[http.Header]
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		got.Store(&h)
		w.WriteHeader(http.StatusAccepted)
	}, func(target *passthrough.Target, _ *passthrough.Options) { target.Version = mcp.V20260728 })
	e.post(mcpPath, modern(`"id":2,"method":"tools/call"`, `"name":"café"`),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?Y2Fmw6k=?=", "Mcp-Param-Region", "eu")
	for k, want := range map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?Y2Fmw6k=?=", "Mcp-Param-Region": "eu", "Mcp-Protocol-Version": "2026-07-28"} {
		if v := got.Load().Get(k); v != want {
			t.Errorf("upstream got %s: %q, want %q", k, v, want)
		}
	}
}

// TestAnswersThatMislead: what an agent could only misunderstand is told in other
// words, with the request's id.
func TestAnswersThatMislead(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host got %v", r.Header)
	}))
	defer foreign.Close()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		status  int
		want    string
	}{
		{"its credentials are refused", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, 502, "mcpServers.fake.headers"},
		{"it redirects elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, foreign.URL, http.StatusTemporaryRedirect)
		}, 502, "redirects"},
		{"it redirects in circles", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusPermanentRedirect)
		}, 502, "redirects"},
		{"a proxy's page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<h1>secret</h1>")
		}, 502, "502 Bad Gateway"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<h1>secret</h1>")
		}, 502, `content type \"text/html\"`},
		{"it takes a request for a notification", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
		}, 502, "202 Accepted instead of a response"},
		{"it says nothing", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
		}, 502, "empty body"},
		{"its path is another", http.NotFound, 404, "Failed to reach agent: upstream \\\"fake\\\" does not take initialize (404 Not Found): check that the url is that of its MCP endpoint"},
		{"it does not say what is wrong", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusBadRequest)
		}, 400, `"kind":"invalid_request"`},
		{"it takes no POST", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}, 405, `"kind":"upstream_protocol"`},
		{"it does not know the method", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotImplemented)
		}, 502, `"kind":"upstream_protocol"`},
		{"it is busy", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "11")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 502, `"kind":"upstream_unavailable","retry_after":11`},
		{"it does not know weir", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusUnauthorized)
		}, 502, `"kind":"upstream_protocol"`},
		{"it forbids", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusForbidden)
		}, 403, `"kind":"permission_denied"`},
		{"it is asked too often", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}, 429, `"kind":"rate_limited","retry_after":7`},
		{"it closes the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "closed the connection"},
		{"it stops within a short answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
			panic(http.ErrAbortHandler)
		}, 502, "closed the connection"},
		{"it answers endlessly", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "2000000")
			_, _ = io.WriteString(w, "{")
		}, 502, "bound"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := inFront(t, tt.handler, func(_ *passthrough.Target, o *passthrough.Options) { o.MaxResponse = 1_000_000 })
			res := e.post(mcpPath, initRequest)
			if res.status != tt.status || !strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":1,"error":{`) || !strings.Contains(res.body, tt.want) || strings.Contains(res.body, "secret") {
				t.Errorf("%d %s", res.status, res.body)
			}
			if res.header.Get("WWW-Authenticate") != "" {
				t.Error("the agent is asked to log in")
			}
		})
	}
}

// TestLostSessionWithoutWords: 404 says that a session is gone, whatever its body is.
func TestLostSessionWithoutWords(t *testing.T) {
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") != "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "s1")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}, nil)
	e.post(mcpPath, initRequest)
	res := e.post(mcpPath, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Mcp-Session-Id", "s1")
	if res.status != 404 || !strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":2,"error":{"code":-32001,`) {
		t.Errorf("%d %s", res.status, res.body)
	}
	// What is no request has no answer to be put in words.
	if res := e.post(mcpPath, `{"jsonrpc":"2.0","method":"notifications/x"}`, "Mcp-Session-Id", "s1"); res.status != 404 || strings.Contains(res.body, "jsonrpc") {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// TestErrorsOfUpstreamPass: an error that the upstream answered is the answer.
func TestErrorsOfUpstreamPass(t *testing.T) {
	body := `{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"own","data":{"z":1,"a":12345678901234567890}}}`
	for _, code := range []int{200, 400, 403, 404, 429, 500, 503} {
		e := inFront(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}, nil)
		if res := e.post(mcpPath, initRequest); res.status != code || res.body != body || res.header.Get("Retry-After") != "7" {
			t.Errorf("%d: %d %s", code, res.status, res.body)
		}
	}
}

// TestRedirectWithinOrigin: servers that add a slash to their path are found.
func TestRedirectWithinOrigin(t *testing.T) {
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") {
			http.Redirect(w, r, r.URL.Path+"/", http.StatusTemporaryRedirect)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}, nil)
	if res := e.post(mcpPath, initRequest); res.status != http.StatusOK || res.body != initRequest {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// TestBrokenStream: when an upstream dies within a stream, the agent is told at
// once, unless it can come back for the rest.
func TestBrokenStream(t *testing.T) {
	send := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	post := func(t *testing.T, handler http.HandlerFunc) (body string, err error) {
		e := inFront(t, handler, nil)
		resp, err := e.client.Do(e.request(context.Background(), http.MethodPost, mcpPath, initRequest))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return string(data), err
	}
	t.Run("no ids", func(t *testing.T) {
		body, err := post(t, send("data: {\"a\":1}\n\n"))
		if err != nil || !strings.HasPrefix(body, "data: {\"a\":1}\n\n") || !strings.Contains(body, `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Failed to reach agent: `) {
			t.Errorf("%q, %v", body, err)
		}
	})
	t.Run("ids", func(t *testing.T) {
		if body, err := post(t, send("id: 1\ndata: {}\n\n")); err == nil || body != "id: 1\ndata: {}\n\n" {
			t.Errorf("%q, %v", body, err)
		}
	})
	t.Run("within an event", func(t *testing.T) {
		if body, err := post(t, send("data: {\"a\"")); err == nil || body != "data: {\"a\"" {
			t.Errorf("%q, %v", body, err)
		}
	})
	t.Run("ended cleanly", func(t *testing.T) {
		body, err := post(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 1\ndata:\n\n")
		})
		if err != nil || body != "id: 1\ndata:\n\n" {
			t.Errorf("%q, %v", body, err)
		}
	})
}

// TestLongAnswerBreaksOff: a long answer that breaks off must not look whole.
func TestLongAnswerBreaksOff(t *testing.T) {
	e := inFront(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 20 {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 64<<10))
		}
		panic(http.ErrAbortHandler)
	}, func(_ *passthrough.Target, o *passthrough.Options) { o.Logger = slog.New(slog.DiscardHandler) })
	resp, err := e.client.Do(e.request(context.Background(), http.MethodPost, mcpPath, initRequest))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("%d bytes, and no error", n)
	}
}

// TestStreamIsNotHeldBack: each event reaches the agent before the next is sent,
// and silence is filled with comments, between events only.
func TestStreamIsNotHeldBack(t *testing.T) {
	next := make(chan string)
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case text, ok := <-next:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, text)
			case <-r.Context().Done():
				return
			}
		}
	}, func(_ *passthrough.Target, o *passthrough.Options) { o.KeepAlive = 30 * time.Millisecond })
	resp, err := e.client.Do(e.request(context.Background(), http.MethodPost, mcpPath, initRequest))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Accel-Buffering") != "no" || resp.Header.Get("Content-Length") != "" {
		t.Errorf("headers: %v", resp.Header)
	}
	got := ""
	expect := func(want string) {
		t.Helper()
		buf := make([]byte, 1024)
		for !strings.HasSuffix(got, want) {
			n, err := resp.Body.Read(buf)
			got += string(buf[:n])
			if err != nil {
				t.Fatalf("%q, %v", got, err)
			}
		}
	}
	expect(": keep-alive\n\n")
	next <- "data: {\"a\":1}\n\n"
	expect("data: {\"a\":1}\n\n")
	next <- "data: {\"b\""
	expect("data: {\"b\"")
	time.Sleep(100 * time.Millisecond) // silence within an event
	next <- ":2}\n\n"
	expect("data: {\"b\":2}\n\n")
	expect(": keep-alive\n\n")
	close(next)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || strings.Trim(string(rest), ": kepaliv-\n") != "" {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestShutdown: streams end at once, calls when they are done or time is up, and
// then with an answer.
func TestShutdown(t *testing.T) {
	entered := make(chan string, 8)
	finish := make(chan struct{})
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			entered <- "stream"
			<-r.Context().Done()
		case bytes.Contains(body, []byte("quick")):
			entered <- "quick"
			<-finish
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"quick","result":{}}`)
		case bytes.Contains(body, []byte("slow")):
			entered <- "slow"
			<-r.Context().Done()
		default:
			w.Header().Set("Mcp-Session-Id", "s")
			w.WriteHeader(http.StatusOK)
		}
	}, nil)
	e.post(mcpPath, initRequest)
	var all sync.WaitGroup
	results := map[string]result{}
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := func(name, method, body string) {
		all.Go(func() {
			res := e.do(e.request(context.Background(), method, mcpPath, body, "Mcp-Session-Id", "s"))
			mu.Lock()
			defer mu.Unlock()
			results[name] = res
			if name == "quick" {
				cancel() // time is up for the other one
			}
		})
		<-entered
	}
	stream, err := e.client.Do(e.request(context.Background(), http.MethodGet, mcpPath, "", "Mcp-Session-Id", "s"))
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	all.Go(func() {
		defer stream.Body.Close()
		_, _ = io.Copy(io.Discard, stream.Body) // until it ends
	})
	begin("quick", http.MethodPost, `{"jsonrpc":"2.0","id":"quick","method":"x/quick"}`)
	begin("slow", http.MethodPost, `{"jsonrpc":"2.0","id":"slow","method":"x/slow"}`)
	ended := make(chan error, 1)
	go func() { ended <- e.router.Shutdown(ctx) }()
	for {
		res := e.post(mcpPath, `{"jsonrpc":"2.0","id":"late","method":"ping"}`, "Mcp-Session-Id", "s")
		if res.status == http.StatusServiceUnavailable && strings.Contains(res.body, `"id":"late"`) {
			break
		}
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	all.Wait()
	if res := results["quick"]; res.status != http.StatusOK || res.body != `{"jsonrpc":"2.0","id":"quick","result":{}}` {
		t.Errorf("quick: %d %s", res.status, res.body)
	}
	if res := results["slow"]; res.status != http.StatusServiceUnavailable || !strings.Contains(res.body, `"id":"slow"`) || !strings.Contains(res.body, "shutting down") {
		t.Errorf("slow: %d %s", res.status, res.body)
	}
	if stream.StatusCode != http.StatusOK {
		t.Errorf("stream: %d", stream.StatusCode)
	}
}

// TestReplacedUpstream: when an upstream is replaced, sessions with the old one
// end, and nothing of it is left.
func TestReplacedUpstream(t *testing.T) {
	var current atomic.Pointer[scripted]
	current.Store(&scripted{name: "old"})
	rt := passthrough.New(passthrough.Options{
		Find: func(string) (passthrough.Upstream, bool) {
			up := current.Load()
			return up, up != nil
		},
		Names: func() []string { return nil },
	})
	srv := httptest.NewServer(rt)
	defer srv.Close()
	e := &env{t: t, url: srv.URL, router: rt, client: &http.Client{Transport: &http.Transport{}}}
	defer e.client.CloseIdleConnections()
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	id := e.initialize("2025-11-25")
	if res := e.post(mcpPath, list, "Mcp-Session-Id", id); !strings.Contains(res.body, "old") {
		t.Errorf("%d %s", res.status, res.body)
	}
	old := current.Swap(&scripted{name: "new"})
	if res := e.post(mcpPath, list, "Mcp-Session-Id", id); res.status != http.StatusNotFound {
		t.Errorf("a session with the old one: %d %s", res.status, res.body)
	}
	if res := e.post(mcpPath, list); !strings.Contains(res.body, "new") {
		t.Errorf("%d %s", res.status, res.body)
	}
	newer := current.Swap(nil)
	if res := e.post(mcpPath, list); res.status != http.StatusNotFound || !strings.Contains(res.body, `"agents":[]`) {
		t.Errorf("gone: %d %s", res.status, res.body)
	}
	if err := rt.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	for _, up := range []*scripted{old, newer} {
		if n := up.subscribers.Load(); n != 0 {
			t.Errorf("%s still has %d subscribers", up.name, n)
		}
	}
}

// scripted is an upstream in memory.
type scripted struct {
	passthrough.Upstream
	name        string
	hello       mcp.Hello
	subscribers atomic.Int64
	call        func(ctx context.Context, method string, params []byte, back mcp.Handler) (string, error)

	mu     sync.Mutex // guards below
	levels []string
	tell   func(method string, params []byte)
}

func (s *scripted) String() string { return fmt.Sprintf("upstream %s", s.name) }

// ended is an upstream whose program has just ended, which nobody knows yet. Once
// told, Hold starts it again. It is its own network.
type ended struct {
	fixed
	comesBack bool
	told      atomic.Int64
	runs      atomic.Bool
}

func (u *ended) Hold(context.Context, bool) (func(lost error), error) {
	u.runs.Store(u.comesBack && u.told.Load() > 0)
	return func(lost error) {
		if lost != nil {
			u.told.Add(1)
		}
	}, nil
}

// RoundTrip implements http.RoundTripper.
func (u *ended) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err == nil && !u.runs.Load() {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if err != nil {
		return nil, err
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"bytes":%d}}`, len(body))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// TestProgramThatHasJustEnded: what did not reach a program that weir runs goes to
// the next one, and is tried no more than once again.
func TestProgramThatHasJustEnded(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		target := passthrough.Target{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"}, Process: true, Version: mcp.V20251125}
		up := &ended{fixed: fixed{target: target}, comesBack: comesBack}
		rt := passthrough.New(passthrough.Options{
			Find: func(string) (passthrough.Upstream, bool) { return up, true }, Names: func() []string { return nil }, Transport: up,
		})
		srv := httptest.NewServer(rt)
		e := &env{t: t, url: srv.URL, router: rt, client: &http.Client{Transport: &http.Transport{}}}
		res := e.post(mcpPath, initRequest)
		switch {
		case comesBack && (res.status != http.StatusOK || !strings.Contains(res.body, fmt.Sprintf(`"bytes":%d`, len(initRequest)))):
			t.Errorf("it came back: %d %s", res.status, res.body)
		case !comesBack && (res.status != http.StatusBadGateway || !strings.Contains(res.body, "refused the connection")):
			t.Errorf("it did not come back: %d %s", res.status, res.body)
		}
		if n := up.told.Load(); n != 1 {
			t.Errorf("told %d times", n)
		}
		e.client.CloseIdleConnections()
		srv.Close()
		if err := rt.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
