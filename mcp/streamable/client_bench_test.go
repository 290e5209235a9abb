package streamable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// BenchmarkClientCall compares a call with a plain net/http POST to the same
// raw server, each with 16 callers, in one run: x_baseline is the call's
// throughput divided by that of the POST.
func BenchmarkClientCall(b *testing.B) {
	for _, era := range []string{"legacy", "modern", "sse"} {
		for _, size := range []int{100, 100 << 10} {
			b.Run(fmt.Sprintf("%s/%dB", era, size), func(b *testing.B) { benchmarkCall(b, era, size) })
		}
	}
}

func benchmarkCall(b *testing.B, era string, size int) {
	payload := strings.Repeat("x", size)
	params := json.RawMessage(`{"name":"echo","arguments":{"text":"` + payload + `"}}`)
	answer := []byte(`{"content":[{"type":"text","text":"` + payload + `"}]}`)
	f := &fake{modern: era == "modern"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Bench") == "" {
			f.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		m, perr := jsonrpc.Parse(body)
		if err != nil || perr != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if m.Method == "initialize" || m.Method == "server/discover" || m.ID == "" {
			r.Body = io.NopCloser(bytes.NewReader(body))
			f.ServeHTTP(w, r)
			return
		}
		out := jsonrpc.AppendResult(make([]byte, 0, len(answer)+64), m.ID, answer)
		if era == "sse" {
			w.Header().Set("Content-Type", ContentSSE)
			_, _ = w.Write(AppendEvent(nil, Event{Data: out}))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(out)))
		writeJSON(w, out)
	}))
	defer server.Close()
	version := ""
	if era == "modern" {
		version = mcp.V20260728
	}
	c, err := Dial(b.Context(), ClientOptions{URL: server.URL, ProtocolVersion: version, Header: http.Header{"X-Bench": {"1"}}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()

	const callers = 16
	run := func(n int, f func() error) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range (n + i) / callers {
					if err := f(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	plainClient := &http.Client{Transport: newPool(time.Second)}
	defer plainClient.CloseIdleConnections()
	body := jsonrpc.AppendRequest(nil, "1", "tools/call", params)
	plain := func() error {
		req, err := http.NewRequest(http.MethodPost, server.URL, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Bench", "1")
		resp, err := plainClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return err
	}
	call := func() error {
		_, err := c.Call(b.Context(), "tools/call", params, nil)
		return err
	}
	run(200, plain)
	run(200, call)
	// Turn about, so that both see the same machine.
	var base, own time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	const rounds = 8
	for i := range rounds {
		n := (b.N + i) / rounds
		b.StopTimer()
		base += run(n, plain)
		b.StartTimer()
		own += run(n, call)
	}
	b.StopTimer()
	if own > 0 && b.N > 100 {
		b.ReportMetric(base.Seconds()/own.Seconds(), "x_baseline")
	}
}
