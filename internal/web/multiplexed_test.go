package web

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/memnet"
)

// overHTTP2 serves a handler over HTTP/2 in memory and returns a client.
func overHTTP2(t *testing.T, draining *atomic.Bool, h http.HandlerFunc) (client *http.Client, end func()) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	listener := memnet.New()
	server := &http.Server{Protocols: &protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request is %s", r.Proto)
		}
		h(newMultiplexed(w, draining), r)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	transport := &http.Transport{Protocols: &protocols, DialContext: listener.DialContext}
	return &http.Client{Transport: transport}, func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-served
	}
}

// TestMultiplexedDeadlines: a stream that is idle for longer than its write deadline goes on, and one
// whose client does not read ends at the deadline.
func TestMultiplexedDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		client, end := overHTTP2(t, new(atomic.Bool), func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			bounded := func(text string) error {
				_ = control.SetWriteDeadline(time.Now().Add(time.Second))
				if _, err := io.WriteString(w, text); err != nil {
					return err
				}
				return control.Flush()
			}
			if r.URL.Path == "/idle" {
				_ = bounded("first\n")
				time.Sleep(time.Hour)
				failed <- bounded("second\n")
				return
			}
			for {
				if err := bounded(strings.Repeat("x", 1<<20)); err != nil {
					failed <- err
					return
				}
			}
		})
		defer end()
		resp, err := client.Get("http://memory/idle")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		for _, want := range []string{"first\n", "second\n"} {
			if line, err := lines.ReadString('\n'); line != want || err != nil {
				t.Errorf("%q, %v; want %q", line, err, want)
			}
		}
		resp.Body.Close()
		if err := <-failed; err != nil {
			t.Errorf("the second write: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://memory/stuck", nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if resp, err = client.Do(r); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err == nil || time.Since(start) > 3*time.Second {
			t.Errorf("a client that does not read: %v after %s", err, time.Since(start))
		}
		cancel()
		resp.Body.Close()
	})
}

// TestMultiplexedClose: a refused body ends its stream and not the connection, unless the gateway ends.
func TestMultiplexedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var draining atomic.Bool
		client, end := overHTTP2(t, &draining, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		})
		defer end()
		ask := func() (dials bool) {
			t.Helper()
			conn := ""
			r, err := http.NewRequestWithContext(withConn(t.Context(), &conn), http.MethodPost, "http://memory/", strings.NewReader(strings.Repeat("x", 1<<20)))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			synctest.Wait()
			return conn == "new"
		}
		if !ask() || ask() || ask() {
			t.Error("a refusal ends the connection")
		}
		draining.Store(true)
		if ask() {
			t.Error("the first request of the end has a connection of its own")
		}
		if !ask() {
			t.Error("no GOAWAY was sent at the end")
		}
	})
}

// withConn notes whether a request has a new connection.
func withConn(ctx context.Context, conn *string) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if *conn = "reused"; !i.Reused {
			*conn = "new"
		}
	}})
}
