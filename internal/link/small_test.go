package link

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/identity"
)

// TestSmallRequests: small requests go to another node as frames, all others by HTTP, and a node that refuses
// frames gets all of them by HTTP. The handler sees the same either way.
func TestSmallRequests(t *testing.T) {
	key, err := Parse(strings.Repeat("0a", 32))
	if err != nil {
		t.Fatal(err)
	}
	authority := NewAuthority("a", key, nil, nil)
	for name, refuses := range map[string]bool{"frames": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			b := testLink(t, Options{TLS: authority.TLS()}, "bbbbbb")
			a := testLink(t, Options{TLS: authority.TLS()}, "aaaaaa", Peer{Inc: "bbbbbb", URL: "https://" + l.Addr().String()})
			var frames, refusals atomic.Int64
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id, from, ok := Caller(r.Context())
				if !ok || id.Principal != "ann" || from != "aaaaaa" || r.RemoteAddr != "192.0.2.1:7" || r.TLS != nil || r.Header.Get(headerAs) != "" || r.Header.Get("Idempotency-Key") != "k" {
					t.Errorf("%v %s %s %v", id, from, r.RemoteAddr, r.Header)
				}
				if _, ok := w.(http.Hijacker); !ok {
					frames.Add(1)
					w.Header().Set("Framed", "1")
				}
				body, _ := io.ReadAll(r.Body)
				_, _ = w.Write(body)
			})
			if refuses {
				server := &http.Server{ReadHeaderTimeout: readTime, Handler: b.receive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
				server := b.Serve(l, authority.TLS(), handler)
				defer server.Shutdown(context.Background())
			}
			for _, size := range []int{0, 5, MaxBody, 5} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://weir/mcp", strings.NewReader(strings.Repeat("x", size)))
				if err != nil {
					t.Fatal(err)
				}
				r.RemoteAddr = "192.0.2.1:7"
				r.Header = http.Header{headerAs: {asHeader(&identity.Identity{Principal: "ann"})}, "Idempotency-Key": {"k"}}
				resp, err := a.RoundTrip("bbbbbb", r)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if framed := resp.Header.Get("Framed") != ""; err != nil || len(text) != size || framed == refuses {
					t.Errorf("%d bytes: %v, %v", size, resp, err)
				}
			}
			if refusals.Load() > 1 {
				t.Errorf("a node that refuses was asked %d times", refusals.Load())
			}
		})
	}
}
