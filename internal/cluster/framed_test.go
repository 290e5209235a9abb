package cluster

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/cluster/clusterkey"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/store"
)

// TestSmallRequests: small requests go to another node as frames, all others by HTTP, and an older node that does not
// know frames gets all of them by HTTP. The handler sees the same either way.
func TestSmallRequests(t *testing.T) {
	key, err := clusterkey.Parse(strings.Repeat("0a", 32))
	if err != nil {
		t.Fatal(err)
	}
	authority := clusterkey.NewAuthority("a", key, nil, nil)
	for name, older := range map[string]bool{"today": false, "older": true} {
		t.Run(name, func(t *testing.T) {
			docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			start := func(o Options) *Node {
				o.Docs, o.Bus, o.TLS = docs, bus, authority.TLS()
				n, err := Start(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { n.Close(context.Background()) })
				return n
			}
			b := start(Options{Name: "b", URL: "https://" + l.Addr().String()})
			a := start(Options{Name: "a"})
			var frames, refusals atomic.Int64
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id, from, ok := Caller(r.Context())
				if !ok || id.Principal != "ann" || from != a.Inc() || r.RemoteAddr != "192.0.2.1:7" || r.TLS != nil || r.Header.Get(headerAs) != "" || r.Header.Get("Idempotency-Key") != "k" {
					t.Errorf("%v %s %s %v", id, from, r.RemoteAddr, r.Header)
				}
				if _, ok := w.(http.Hijacker); !ok {
					frames.Add(1)
					w.Header().Set("Framed", "1")
				}
				body, _ := io.ReadAll(r.Body)
				_, _ = w.Write(body)
			})
			if older {
				server := &http.Server{ReadHeaderTimeout: linkHeader, Handler: b.receive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == pathExchange {
						refusals.Add(1)
						http.NotFound(w, r)
						return
					}
					handler.ServeHTTP(w, r)
				}))}
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = server.Serve(tls.NewListener(l, authority.TLS()))
				}()
				defer func() { _ = server.Close(); <-done }()
			} else {
				link := b.Serve(l, authority.TLS(), handler)
				defer link.Shutdown(context.Background())
			}
			for _, size := range []int{0, 5, smallBody, 5} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://weir/mcp", strings.NewReader(strings.Repeat("x", size)))
				if err != nil {
					t.Fatal(err)
				}
				r.RemoteAddr = "192.0.2.1:7"
				r.Header = http.Header{headerAs: {asHeader(&identity.Identity{Principal: "ann"})}, "Idempotency-Key": {"k"}}
				resp, err := a.RoundTrip(b.Inc(), r)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if framed := resp.Header.Get("Framed") != ""; err != nil || len(text) != size || framed == older {
					t.Errorf("%d bytes: %v, %v", size, resp, err)
				}
			}
			if refusals.Load() > 1 {
				t.Errorf("an older node was asked %d times", refusals.Load())
			}
		})
	}
}
