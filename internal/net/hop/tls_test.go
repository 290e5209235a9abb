//go:build unix

package hop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// overTLS returns a transport that dials TLS, and the number of its connections.
func overTLS(t *testing.T, trust *x509.Certificate) (*Transport, *atomic.Int32) {
	roots, dials := x509.NewCertPool(), &atomic.Int32{}
	roots.AddCert(trust)
	of := base()
	of.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
		return d.DialContext(ctx, network, address)
	}
	return newTransport(t, of), dials
}

// TestTLS: requests over TLS that the owner dials share a connection until the server closes it, and run in the
// goroutine of the caller.
func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // a server does not read on once it answers
		_, _ = w.Write(text)
	}))
	defer s.Close()
	ours, dials := overTLS(t, s.Certificate())
	for _, size := range []int{0, 3, 20 << 10, 200 << 10} {
		text := strings.Repeat("x", size)
		if got, err := ask(ours, post(t, t.Context(), s.URL, text)); err != nil || got.Body != text {
			t.Errorf("%d bytes: %.40v %v", size, got, err)
		}
	}
	// The server may have answered before the goroutine that writes a large body says that it has done so: that
	// connection is not used again.
	if n := dials.Load(); n != 1 || ours.idle.count > 1 {
		t.Errorf("%d connections, of which %d are idle", n, ours.idle.count)
	}
	if got, err := ask(ours, post(t, t.Context(), s.URL, "x")); err != nil || got.Body != "x" || ours.idle.count != 1 {
		t.Errorf("%v, %v, %d idle connections", got, err, ours.idle.count)
	}
	before := dials.Load()
	s.CloseClientConnections()
	for end := time.Now().Add(20 * time.Second); ours.idle.count > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c := ours.idle.get(originOf(s)); c != nil {
			ours.idle.put(c) // the end of the connection has not arrived
		}
	}
	if got, err := ask(ours, post(t, t.Context(), s.URL, "again")); err != nil || got.Body != "again" {
		t.Error(got, err)
	}
	if n := dials.Load(); n != before+1 {
		t.Errorf("%d connections, then %d", before, n)
	}
}

func originOf(s *httptest.Server) origin { return origin{"https", s.Listener.Addr().String()} }

// TestTLSLeftOver: a connection on which the server has sent more than it was asked for is not used again, also if
// the layer over the socket holds the bytes.
func TestTLSLeftOver(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		// One record: more than the buffer of the reader holds, so the rest stays in the layer below it.
		const body = 8 << 10
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 8192\r\n\r\n"+strings.Repeat("x", body)+"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
		_, _ = conn.Read(make([]byte, 1)) // until the client closes it
	}))
	defer s.Close()
	ours, dials := overTLS(t, s.Certificate())
	for range 2 {
		if got, err := ask(ours, post(t, t.Context(), s.URL, "{}")); err != nil || len(got.Body) != 8<<10 {
			t.Errorf("%.60v %v", got, err)
		}
	}
	if n := dials.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// TestTLSStuck: a request that is cancelled while it is being written ends at once, although the layer over the socket
// would wait seconds for its last message to be taken.
func TestTLSStuck(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	certificate := s.TLS.Certificates[0]
	s.Close()
	for _, size := range []int{3, 200 << 10} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe() // a write lasts until it is read
			defer far.Close()
			of := base()
			of.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				c := tls.Client(near, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}) // TLS 1.2: the client speaks last
				go func() { _ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake() }()
				return c, c.HandshakeContext(ctx)
			}
			ours := newTransport(t, of)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			if _, err := ask(ours, post(t, ctx, "https://stuck", strings.Repeat("x", size))); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if d := time.Since(begun); d != time.Second {
				t.Errorf("%d bytes: the request ends after %v", size, d)
			}
		})
	}
}
