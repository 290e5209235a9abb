package link

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestOpen: a connection of another protocol goes over the peer link, and a node without that protocol says so.
func TestOpen(t *testing.T) {
	key, err := Parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	trust := NewAuthority("n", key, nil, nil).TLS()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "https://" + l.Addr().String() // of both: only b answers there
	a := testLink(t, Options{TLS: trust}, "aaaaaa", Peer{Inc: "bbbbbb", URL: at})
	b := testLink(t, Options{TLS: trust}, "bbbbbb", Peer{Inc: "aaaaaa", URL: at})
	from := make(chan string, 1)
	server := b.Serve(l, trust, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/talk" {
			http.NotFound(w, req)
			return
		}
		conn, err := TakeOver(w, req, "talk")
		if err != nil {
			return
		}
		_, inc, _ := Caller(req.Context())
		from <- inc
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	}))
	defer server.Shutdown(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := a.Open(ctx, "bbbbbb", "/talk", "talk")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if inc := <-from; inc != "aaaaaa" {
		t.Errorf("the connection came from %q", inc)
	}
	heard := make([]byte, 5)
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != "hello" {
		t.Errorf("%q, %v", heard, err)
	}
	for path, want := range map[string]string{"/other": "404", "/talk": "426"} {
		if _, err := a.Open(ctx, "bbbbbb", path, "another"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := b.Open(ctx, "aaaaaa", "/talk", "talk"); err == nil || !strings.Contains(err.Error(), "421") {
		t.Errorf("a URL where another node answers: %v", err)
	}
	if _, err := a.Open(ctx, "aaaaaa", "/talk", "talk"); !errors.Is(err, ErrNotSent) {
		t.Errorf("a node that is not there: %v", err)
	}
	over, end := context.WithCancel(ctx)
	end()
	if _, err := a.Open(over, "bbbbbb", "/talk", "talk"); err == nil {
		t.Error("a dial whose context is over has succeeded")
	}
}
