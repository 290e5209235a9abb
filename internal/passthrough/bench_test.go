package passthrough_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/mcp"
)

// fixed is an upstream at a URL, greeted already.
type fixed struct {
	passthrough.Upstream
	target passthrough.Target
}

func (f *fixed) Target() (passthrough.Target, bool) { return f.target, true }

func (f *fixed) Ready(context.Context) (mcp.Hello, error) {
	return mcp.Hello{Version: mcp.V20251125}, nil
}

// BenchmarkForward calls a tool of a raw, fast upstream directly, through
// httputil.ReverseProxy and through the Router, in the same run. x_proxy is the
// Router's throughput as a multiple of ReverseProxy's, and added_p50_us what it
// adds to the median over ReverseProxy.
func BenchmarkForward(b *testing.B) { benchmarkForward(b, func(*passthrough.Options) {}) }

// BenchmarkAgent is the same to an agent server: within its limits, and with a
// signed token on each request.
func BenchmarkAgent(b *testing.B) {
	signer, err := invocation.NewSigner("weir", []byte(strings.Repeat("k", 32)))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkForward(b, func(o *passthrough.Options) {
		o.Sign = func(agent, principal, tool string) (string, error) { return signer.Sign(principal, agent, tool) }
		o.Limits = func(string) passthrough.Limits { return passthrough.Limits{InFlight: 1024, PerMinute: 1 << 30} }
		o.Allow = func(string, string) bool { return true }
	})
}

func benchmarkForward(b *testing.B, change func(*passthrough.Options)) {
	upstream := httptest.NewServer(http.HandlerFunc(rawUpstream))
	defer upstream.Close()
	u, err := url.Parse(upstream.URL)
	if err != nil {
		b.Fatal(err)
	}
	pool := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	defer pool.CloseIdleConnections()
	rp := &httputil.ReverseProxy{Transport: pool, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A streaming proxy reads and writes at once; without this, large bodies
		// break off.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			b.Error(err)
		}
		rp.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	up := &fixed{target: passthrough.Target{URL: &url.URL{Scheme: "http", Host: u.Host, Path: "/mcp"}, Timeout: time.Minute, Version: mcp.V20251125}}
	o := passthrough.Options{
		Guard: guard.New(guard.Options{}),
		Find:  func(name string) (passthrough.Upstream, bool) { return up, name == "raw" },
		Names: func() []string { return []string{"raw"} },
	}
	change(&o)
	rt := passthrough.New(o)
	weir := httptest.NewServer(rt)
	defer weir.Close()
	defer func() {
		if err := rt.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	for _, callers := range []int{1, 16} {
		for _, size := range []int{100, 100 << 10} {
			b.Run(fmt.Sprintf("%dB/%dcallers", size, callers), func(b *testing.B) {
				call := newCaller(b, callers, size)
				defer call.client.CloseIdleConnections()
				urls := []string{upstream.URL + "/mcp", proxy.URL + "/mcp", weir.URL + "/mcps/raw/mcp"}
				sums := make([]measure, len(urls))
				for _, url := range urls {
					call.run(url, 200)
				}
				// In turns, so that what else the machine does meets all alike.
				const rounds = 5
				for b.Loop() {
					for range rounds {
						for i, url := range urls {
							sums[i].add(call.run(url, 40*callers))
						}
					}
				}
				direct, proxied, routed := sums[0], sums[1], sums[2]
				b.ReportMetric(proxied.perCall()/routed.perCall(), "x_proxy")
				b.ReportMetric(direct.perCall()/routed.perCall(), "x_direct")
				b.ReportMetric(float64((routed.median()-proxied.median()).Nanoseconds())/1e3, "added_p50_us")
				b.ReportMetric(1e9/routed.perCall(), "calls/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// rawUpstream answers initialize with a session, and anything else with a text as
// long as the request.
func rawUpstream(w http.ResponseWriter, r *http.Request) {
	buf := rawBuffers.Get().(*[]byte)
	defer rawBuffers.Put(buf)
	n := int(r.ContentLength)
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	body := (*buf)[:n]
	if _, err := io.ReadFull(r.Body, body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	if strings.Contains(string(body[:min(n, 80)]), "initialize") {
		h["Mcp-Session-Id"] = []string{"bench"}
	}
	h["Content-Length"] = []string{strconv.Itoa(n)}
	_, _ = w.Write(body)
}

var rawBuffers = sync.Pool{New: func() any { return new([]byte) }}

type measure struct {
	total time.Duration
	calls int
	each  []time.Duration
}

func (m *measure) add(o measure) {
	m.total += o.total
	m.calls += o.calls
	m.each = append(m.each, o.each...)
}

func (m *measure) perCall() float64 { return float64(m.total.Nanoseconds()) / float64(m.calls) }

func (m *measure) median() time.Duration {
	if len(m.each) == 0 {
		return 0
	}
	slices.Sort(m.each)
	return m.each[len(m.each)/2]
}

type caller struct {
	b       *testing.B
	client  *http.Client
	callers int
	body    string
	session map[string]string
}

func newCaller(b *testing.B, callers, size int) *caller {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`
	end := `"}}}`
	if n := size - len(body) - len(end); n > 0 {
		body += strings.Repeat("x", n)
	}
	return &caller{b: b, callers: callers, body: body + end, session: map[string]string{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}}
}

func (c *caller) post(url, body string) *http.Response {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		c.b.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
	if s := c.session[url]; s != "" {
		req.Header["Mcp-Session-Id"] = []string{s}
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.b.Fatal(err)
	}
	return resp
}

// run makes calls from all callers at once.
func (c *caller) run(url string, calls int) measure {
	if c.session[url] == "" {
		resp := c.post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		c.session[url] = resp.Header.Get("Mcp-Session-Id")
	}
	each := make([][]time.Duration, c.callers)
	began := time.Now()
	var all sync.WaitGroup
	for i := range c.callers {
		all.Go(func() {
			for range calls / c.callers {
				sent := time.Now()
				resp := c.post(url, c.body)
				n, err := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || n != int64(len(c.body)) {
					c.b.Errorf("%s: %d, %d bytes, %v", url, resp.StatusCode, n, err)
					return
				}
				each[i] = append(each[i], time.Since(sent))
			}
		})
	}
	all.Wait()
	return measure{total: time.Since(began), calls: calls / c.callers * c.callers, each: slices.Concat(each...)}
}
