package streamable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// BenchmarkServer compares a Server whose handler is as fast as can be with a
// plain net/http handler that answers the same bytes, and with an
// httputil.ReverseProxy in front of that, in one run at 16 callers.
//
//	x_echo   throughput relative to the plain handler (below 1 is slower)
//	x_proxy  throughput relative to the ReverseProxy
func BenchmarkServer(b *testing.B) {
	for _, size := range []int{100, 100 << 10} {
		for _, era := range []string{"legacy", "modern"} {
			b.Run(fmt.Sprintf("%s/%dB", era, size), func(b *testing.B) { benchServer(b, era, size) })
		}
	}
}

func benchServer(b *testing.B, era string, size int) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer echo.Close()
	target, err := url.Parse(echo.URL)
	if err != nil {
		b.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	pool := &http.Transport{MaxIdleConnsPerHost: 64}
	defer pool.CloseIdleConnections()
	proxy.Transport = pool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Or the server closes a body that the proxy still looks at once the answer
		// begins, and the answer breaks off.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	server, _ := startServer(b, streamable.ServerOptions{Handler: mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method == "initialize" {
			r.Session.SetVersion(mcp.V20251125)
			return json.RawMessage(`{"protocolVersion":"2025-11-25"}`), nil
		}
		// What is returned outlives the call, so it is a copy.
		return bytes.Clone(rawjson.Get(r.Params, "arguments")), nil
	})})

	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	meta := ""
	if era == "legacy" {
		resp := post(b, server.URL, header, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		header.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
		header.Set("Mcp-Protocol-Version", mcp.V20251125)
	} else {
		header.Set("Mcp-Protocol-Version", mcp.V20260728)
		header.Set("Mcp-Method", "tools/call")
		header.Set("Mcp-Name", "echo")
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	var ids atomic.Int64
	body := func() io.Reader {
		return strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}%s}}`,
			ids.Add(1), strings.Repeat("x", size), meta))
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	run := func(url string, n int) time.Duration {
		var callers sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(n))
		began := time.Now()
		for range 16 {
			callers.Go(func() {
				for left.Add(-1) >= 0 {
					req, err := http.NewRequest("POST", url, body())
					if err != nil {
						b.Error(err)
						return
					}
					req.Header = header
					resp, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					n, err := io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if err != nil || resp.StatusCode != 200 || n < int64(size) {
						b.Errorf("%d, %d bytes, %v", resp.StatusCode, n, err)
						return
					}
				}
			})
		}
		callers.Wait()
		return time.Since(began)
	}
	for _, u := range []string{echo.URL, front.URL, server.URL} {
		run(u, 200) // connections and buffers
	}
	b.ReportAllocs()
	b.ResetTimer()
	// The three take turns, so that all see the same machine.
	var direct, proxied, ours time.Duration
	const turn = 500
	for done := 0; done < b.N; done += turn {
		n := min(turn, b.N-done)
		b.StopTimer()
		direct += run(echo.URL, n)
		proxied += run(front.URL, n)
		b.StartTimer()
		ours += run(server.URL, n)
	}
	b.ReportMetric(direct.Seconds()/ours.Seconds(), "x_echo")
	b.ReportMetric(proxied.Seconds()/ours.Seconds(), "x_proxy")
}

// post sends one message and returns the response, whose body has been read
// and is closed.
func post(t testing.TB, url string, header http.Header, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp
}
