package web_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// BenchmarkHandedOn calls a tool at /mcps/NAME/mcp of a server with a URL, in four configurations in
// turns. The metrics are the time of a call as a multiple of that without a log, where bytes are
// handed on.
func BenchmarkHandedOn(b *testing.B) {
	fake, err := fakemcp.New(fakemcp.Config{NoSessions: true})
	if err != nil {
		b.Fatal(err)
	}
	upstream := httptest.NewServer(fake)
	defer func() { fake.Close(); upstream.Close() }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	call := func(base string) {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, base+"/mcps/up/mcp", strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + staticToken,
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"} {
			r.Header.Set(key, value)
		}
		resp, err := client.Do(r)
		if err != nil {
			b.Error(err)
			return
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Errorf("%d, %v", resp.StatusCode, err)
		}
		resp.Body.Close()
	}
	variants := []struct{ name, more string }{
		{"bare", ""},
		{"none", "audit: {dir: DIR, args: none}\n"},
		{"hash", "audit: {dir: DIR, args: hash}\n"},
		{"read", "audit: {dir: DIR, args: hash}\npolicy: {rules: [{action: deny, tool: no_such_tool}]}\n"},
	}
	bases := make([]string, len(variants))
	for i, v := range variants {
		g, c := gatewayOf(b, fmt.Sprintf("mode: gateway\nauth: {tokens: [{name: ann, sha256: %x}]}\nmcpServers: {up: {url: %q, required: true}}\n",
			sha256.Sum256([]byte(staticToken)), upstream.URL+"/mcp")+strings.ReplaceAll(v.more, "DIR", fmt.Sprintf("%q", filepath.Join(b.TempDir(), "audit"))))
		if err := g.Ready(b.Context()); err != nil {
			b.Fatal(err)
		}
		var server *web.Server
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r) }))
		server = web.NewHandler(g, c, front.URL, api.Machine{}, slog.New(slog.DiscardHandler))
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := server.Shutdown(ctx); err != nil {
				b.Error(err)
			}
			g.Close(ctx)
			front.Close()
		}()
		bases[i] = front.URL
		call(bases[i])
	}
	const callers, rounds = 8, 50
	spent := make([]time.Duration, len(variants))
	calls := 0
	for b.Loop() {
		for i, base := range bases {
			start := processorTime()
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for range rounds {
						call(base)
					}
				})
			}
			group.Wait()
			spent[i] += processorTime() - start
		}
		calls += callers * rounds
	}
	for i, v := range variants {
		if i == 0 {
			b.ReportMetric(float64(spent[0].Microseconds())/float64(calls), "bare_us")
			continue
		}
		b.ReportMetric(float64((spent[i]-spent[0]).Microseconds())/float64(calls), v.name+"_added_us")
	}
}

// began is the start of the clock where the system does not tell processor time.
var began = time.Now()
